// Order statistics over a row of logits without sorting it.
#ifndef TANDEM_MODEL_SELECTION_H_
#define TANDEM_MODEL_SELECTION_H_

#include <cstddef>
#include <span>
#include <vector>

namespace tandem::model {

// The largest number; minus infinity for none. NaN is ignored.
float LargestOf(std::span<const float> values);

// No value is infinite or NaN.
bool AllFinite(std::span<const float> values);

// The k-th largest number, equal ones counted each; minus infinity when there are fewer than k.
// k >= 1. `scratch` is overwritten.
float KthLargest(std::span<const float> values, size_t k, std::vector<float>& scratch);

// The sum in double precision, added in an order that depends on the size alone.
double SumOf(std::span<const float> values);

// Writes exp(value - largest) for every value (zero for NaN and minus infinity) and returns SumOf
// them. `weights` has as many entries.
double ExpAll(std::span<const float> values, float largest, std::span<float> weights);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SELECTION_H_

// Lays out the packed image of a model: finds every tensor that its description asks for, checks
// shapes, and says which rows of which tensor become which panels.
#ifndef TANDEM_MODEL_WEIGHT_LAYOUT_H_
#define TANDEM_MODEL_WEIGHT_LAYOUT_H_

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/packed_cache.h"
#include "model/weights.h"

namespace tandem::model {

struct WeightLayout {
  Weights weights;  // not bound to an image yet
  PackPlan plan;
};

// The error names the tensor that is missing, has another shape, an unsupported type, or is not
// part of the family.
Result<WeightLayout> LayOutWeights(const Checkpoint& checkpoint);

// Says where the image is.
void Bind(const std::byte* image, Weights& weights);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_WEIGHT_LAYOUT_H_

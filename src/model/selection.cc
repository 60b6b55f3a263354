#include "model/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"
#include "model/scalar_math.h"

namespace tandem::model {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;
constexpr size_t kChunk = 256;

}  // namespace

float LargestOf(std::span<const float> values) {
  // Independent lanes, so that the loop becomes packed maxima.
  std::array<float, kLanes> lanes;
  lanes.fill(kMinusInfinity);
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  float largest = kMinusInfinity;
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  for (size_t i = whole; i < values.size(); ++i)
    largest = values[i] > largest ? values[i] : largest;
  return largest;
}

bool AllFinite(std::span<const float> values) {
  uint32_t found = 0;
  for (const float value : values) {
    // All exponent bits set: infinite or NaN. The carry out of the masked addition says so.
    const uint32_t exponent = std::bit_cast<uint32_t>(value) & 0x7F800000U;
    found |= exponent + 0x00800000U;
  }
  return (found & 0x80000000U) == 0;
}

float KthLargest(std::span<const float> values, size_t k, std::vector<float>& scratch) {
  CHECK(k >= 1);
  scratch.clear();
  // `bar` is the k-th largest of what was seen so far: nothing at or below it can change the
  // answer, so whole chunks are passed over by their maximum.
  float bar = kMinusInfinity;
  const size_t capacity = 2 * k + kChunk;
  const auto prune = [&] {
    std::nth_element(scratch.begin(), scratch.begin() + static_cast<ptrdiff_t>(k - 1),
                     scratch.end(), std::greater<>());
    scratch.resize(k);
    bar = scratch[k - 1];
  };
  for (size_t start = 0; start < values.size(); start += kChunk) {
    const std::span<const float> chunk =
        values.subspan(start, std::min(kChunk, values.size() - start));
    if (!(LargestOf(chunk) > bar)) continue;
    for (const float value : chunk)
      if (value > bar) scratch.push_back(value);
    if (scratch.size() + kChunk > capacity) prune();
  }
  if (scratch.size() < k) return kMinusInfinity;
  prune();
  return bar;
}

double ExpAll(std::span<const float> values, float largest, std::span<float> weights) {
  CHECK(weights.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) weights[i] = ExpOfNegative(values[i] - largest);
  return SumOf(weights);
}

double SumOf(std::span<const float> values) {
  std::array<double, kLanes> lanes = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += double{values[i + lane]};
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  for (size_t i = whole; i < values.size(); ++i) sum += double{values[i]};
  return sum;
}

}  // namespace tandem::model

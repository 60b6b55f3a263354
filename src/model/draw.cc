// Random draws as a pure function of what is drawn, and the greedy choice.
#include <array>
#include <limits>

#include "model/sampler.h"
#include "model/selection.h"

namespace tandem::model {

// Philox4x32-10 (Salmon et al., 2011) with the seed as its key and choice and position as counter.
double UniformDraw(uint64_t seed, uint32_t choice, uint64_t position) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53U;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
  constexpr uint32_t kStep0 = 0x9E3779B9U;
  constexpr uint32_t kStep1 = 0xBB67AE85U;
  std::array<uint32_t, 4> counter = {static_cast<uint32_t>(position),
                                     static_cast<uint32_t>(position >> 32), choice, 0};
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kStep0;
    key1 += kStep1;
  }
  const uint64_t bits = (uint64_t{counter[0]} << 32 | counter[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

TokenId Argmax(std::span<const float> values) {
  constexpr size_t kChunk = 512;
  float best = -std::numeric_limits<float>::infinity();
  size_t best_start = values.size();
  for (size_t start = 0; start < values.size(); start += kChunk) {
    const float largest = LargestOf(values.subspan(start, std::min(kChunk, values.size() - start)));
    if (largest > best) {
      best = largest;
      best_start = start;
    }
  }
  for (size_t i = best_start; i < values.size(); ++i)
    if (values[i] == best) return static_cast<TokenId>(i);
  return 0;
}

}  // namespace tandem::model

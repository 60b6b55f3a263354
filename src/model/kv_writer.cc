#include "model/kv_writer.h"

#include <algorithm>
#include <cstring>

namespace tandem::model {
namespace {

// Numbers of a key that are converted at a time.
constexpr size_t kStep = 64;

// One number to each of `count` dimensions of a key's part.
template <class T>
void Scatter(const T* from, size_t count, T* to, size_t block_tokens) {
  for (size_t i = 0; i < count; ++i) to[i * block_tokens] = from[i];
}

}  // namespace

void KvWriter::Store(const Place& place, int layer, int kv_head, const float* k,
                     const float* v) const {
  StoreKey(place, address_.K(place.block, layer, kv_head), k);
  StoreValue(place, address_.V(place.block, layer, kv_head), v);
}

void KvWriter::StoreKey(const Place& place, std::byte* part, const float* k) const {
  const auto block_tokens = static_cast<size_t>(layout_.block_tokens);
  const auto dims = static_cast<size_t>(layout_.k_dim);
  const auto slot = static_cast<size_t>(place.slot);
  switch (layout_.dtype) {
    case KvDtype::kFloat32:
      Scatter(k, dims, reinterpret_cast<float*>(part) + slot, block_tokens);
      return;
    case KvDtype::kFloat16:
      for (size_t d = 0; d < dims; d += kStep) {
        const size_t count = std::min(kStep, dims - d);
        uint16_t halves[kStep];
        ops_.narrow(k + d, count, halves);
        Scatter(halves, count, reinterpret_cast<uint16_t*>(part) + d * block_tokens + slot,
                block_tokens);
      }
      return;
  }
}

void KvWriter::StoreValue(const Place& place, std::byte* part, const float* v) const {
  const auto dims = static_cast<size_t>(layout_.v_dim);
  const size_t at = static_cast<size_t>(place.slot) * dims;
  switch (layout_.dtype) {
    case KvDtype::kFloat32:
      std::memcpy(reinterpret_cast<float*>(part) + at, v, dims * sizeof(float));
      return;
    case KvDtype::kFloat16:
      ops_.narrow(v, dims, reinterpret_cast<uint16_t*>(part) + at);
      return;
  }
}

}  // namespace tandem::model

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

using ToSixteenBits = void (*)(const float* x, size_t n, uint16_t* y);

// A key of numbers of 16 bits; `to` is where its first one goes.
void ScatterNarrowed(ToSixteenBits narrow, const float* k, size_t dims, uint16_t* to,
                     size_t block_tokens) {
  for (size_t d = 0; d < dims; d += kStep) {
    const size_t count = std::min(kStep, dims - d);
    uint16_t narrowed[kStep];
    narrow(k + d, count, narrowed);
    Scatter(narrowed, count, to + d * block_tokens, block_tokens);
  }
}

}  // namespace

void KvWriter::Store(const Place& place, int layer, int kv_head, const float* k,
                     const float* v) const {
  StoreKey(place, layer, kv_head, k);
  StoreValue(place, layer, kv_head, v);
}

void KvWriter::StoreKey(const Place& place, int layer, int kv_head, const float* k) const {
  std::byte* part = address_.K(place.block, layer, kv_head);
  const auto block_tokens = static_cast<size_t>(layout_.block_tokens);
  const auto dims = static_cast<size_t>(layout_.k_dim);
  switch (layout_.dtype) {
    case KvDtype::kFloat32:
      Scatter(k, dims, reinterpret_cast<float*>(part) + place.slot, block_tokens);
      return;
    case KvDtype::kFloat16:
      ScatterNarrowed(ops_.narrow, k, dims, reinterpret_cast<uint16_t*>(part) + place.slot,
                      block_tokens);
      return;
    case KvDtype::kBfloat16:
      ScatterNarrowed(ops_.narrow_bfloat16, k, dims, reinterpret_cast<uint16_t*>(part) + place.slot,
                      block_tokens);
      return;
    case KvDtype::kInt8:
      address_.KScales(place.block, layer, kv_head)[place.slot] =
          ops_.quantize_head(k, dims, reinterpret_cast<int8_t*>(part) + place.slot, block_tokens);
      return;
  }
}

void KvWriter::StoreValue(const Place& place, int layer, int kv_head, const float* v) const {
  std::byte* part = address_.V(place.block, layer, kv_head);
  const auto dims = static_cast<size_t>(layout_.v_dim);
  const size_t at = static_cast<size_t>(place.slot) * dims;
  switch (layout_.dtype) {
    case KvDtype::kFloat32:
      std::memcpy(reinterpret_cast<float*>(part) + at, v, dims * sizeof(float));
      return;
    case KvDtype::kFloat16:
      ops_.narrow(v, dims, reinterpret_cast<uint16_t*>(part) + at);
      return;
    case KvDtype::kBfloat16:
      ops_.narrow_bfloat16(v, dims, reinterpret_cast<uint16_t*>(part) + at);
      return;
    case KvDtype::kInt8:
      address_.VScales(place.block, layer, kv_head)[place.slot] =
          ops_.quantize_head(v, dims, reinterpret_cast<int8_t*>(part) + at, 1);
      return;
  }
}

}  // namespace tandem::model

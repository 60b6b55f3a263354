#include "model/kv_layout.h"

#include <fmt/format.h>

namespace tandem::model {

std::string_view KvDtypeName(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kFloat16:
      return "f16";
    case KvDtype::kFloat32:
      return "f32";
  }
  return "unknown";
}

size_t KvElementBytes(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kFloat16:
      return 2;
    case KvDtype::kFloat32:
      return 4;
  }
  return 0;
}

size_t KvLayout::KPartBytes() const {
  return static_cast<size_t>(k_dim) * static_cast<size_t>(block_tokens) * KvElementBytes(dtype);
}

size_t KvLayout::VPartBytes() const {
  return static_cast<size_t>(v_dim) * static_cast<size_t>(block_tokens) * KvElementBytes(dtype);
}

size_t KvLayout::BlockBytes() const {
  return static_cast<size_t>(layers) * static_cast<size_t>(kv_heads) *
         (KPartBytes() + VPartBytes());
}

std::string KvLayout::Id() const {
  return fmt::format("kv2-{}-l{}-h{}-k{}-v{}-b{}", KvDtypeName(dtype), layers, kv_heads, k_dim,
                     v_dim, block_tokens);
}

KvAddress::KvAddress(const KvLayout& layout, KvArena arena)
    : base_(arena.base),
      k_part_(layout.KPartBytes()),
      v_part_(layout.VPartBytes()),
      k_parts_(static_cast<size_t>(layout.kv_heads) * k_part_),
      layer_bytes_(static_cast<size_t>(layout.kv_heads) * (k_part_ + v_part_)),
      block_bytes_(layout.BlockBytes()) {}

}  // namespace tandem::model

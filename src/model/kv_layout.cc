#include "model/kv_layout.h"

#include <fmt/format.h>

namespace tandem::model {
namespace {

size_t PartBytes(const KvLayout& layout, int dim) {
  const size_t token = static_cast<size_t>(dim) * KvElementBytes(layout.dtype) +
                       (layout.HasScales() ? sizeof(float) : 0);
  return token * static_cast<size_t>(layout.block_tokens);
}

}  // namespace

std::string_view KvDtypeName(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kFloat16:
      return "f16";
    case KvDtype::kFloat32:
      return "f32";
    case KvDtype::kBfloat16:
      return "bf16";
    case KvDtype::kInt8:
      return "i8";
  }
  return "unknown";
}

size_t KvElementBytes(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kFloat16:
    case KvDtype::kBfloat16:
      return 2;
    case KvDtype::kFloat32:
      return 4;
    case KvDtype::kInt8:
      return 1;
  }
  return 0;
}

std::optional<KvDtype> KvDtypeOfFlag(std::string_view name) {
  if (name == "float16") return KvDtype::kFloat16;
  if (name == "float32") return KvDtype::kFloat32;
  if (name == "bfloat16") return KvDtype::kBfloat16;
  if (name == "int8_per_token_head") return KvDtype::kInt8;
  return std::nullopt;
}

size_t KvLayout::KPartBytes() const { return PartBytes(*this, k_dim); }
size_t KvLayout::VPartBytes() const { return PartBytes(*this, v_dim); }

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
      block_tokens_(layout.block_tokens),
      k_part_(layout.KPartBytes()),
      v_part_(layout.VPartBytes()),
      k_parts_(static_cast<size_t>(layout.kv_heads) * k_part_),
      layer_bytes_(static_cast<size_t>(layout.kv_heads) * (k_part_ + v_part_)),
      block_bytes_(layout.BlockBytes()) {}

}  // namespace tandem::model

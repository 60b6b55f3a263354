// How keys and values lie in memory: the layout of a block, the arena of an engine, and the
// addresses inside it. The bytes travel between workers; docs/contracts/kv-layout.md says what they
// are.
#ifndef TANDEM_MODEL_KV_LAYOUT_H_
#define TANDEM_MODEL_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::model {

using BlockId = int32_t;

// What a number of a key or value is kept as. kInt8: with a float32 scale for each token and head.
enum class KvDtype : uint8_t { kFloat16, kFloat32, kBfloat16, kInt8 };

// The name in ids and identities: "f16", "f32", "bf16", "i8".
std::string_view KvDtypeName(KvDtype dtype);
// Of one number of a key or value.
size_t KvElementBytes(KvDtype dtype);
// By the names of --kv-cache-dtype: float16, float32, bfloat16, int8_per_token_head.
std::optional<KvDtype> KvDtypeOfFlag(std::string_view name);

// One block: all layers contiguous, so that it is one copy; for each layer K
// [kv head][k_dim][token in block], then V [kv head][token in block][v_dim]. Each head's part ends
// with its scales, one float per token, if the dtype has them. Both widths are multiples of 16.
struct KvLayout {
  int layers = 0;
  int kv_heads = 0;
  int k_dim = 0;  // numbers of a key of one head
  int v_dim = 0;  // of a value
  int block_tokens = 16;
  KvDtype dtype = KvDtype::kFloat16;

  bool HasScales() const { return dtype == KvDtype::kInt8; }
  // The part of one head in one layer of a block.
  size_t KPartBytes() const;
  size_t VPartBytes() const;
  size_t BlockBytes() const;
  std::string Id() const;  // equal ids mean that bytes can be exchanged
};

// The KV memory of one engine: block b starts at base + b * layout.BlockBytes(). Not owned.
struct KvArena {
  std::byte* base = nullptr;
  int32_t blocks = 0;
};

// Where the parts of a block are. Indices are not checked.
class KvAddress {
 public:
  KvAddress() = default;
  KvAddress(const KvLayout& layout, KvArena arena);

  std::byte* K(BlockId block, int layer, int kv_head) const {
    return Layer(block, layer) + static_cast<size_t>(kv_head) * k_part_;
  }
  std::byte* V(BlockId block, int layer, int kv_head) const {
    return Layer(block, layer) + k_parts_ + static_cast<size_t>(kv_head) * v_part_;
  }
  // Scales of the tokens of a block, for a dtype that has them.
  float* KScales(BlockId block, int layer, int kv_head) const {
    return reinterpret_cast<float*>(K(block, layer, kv_head) + k_part_) - block_tokens_;
  }
  float* VScales(BlockId block, int layer, int kv_head) const {
    return reinterpret_cast<float*>(V(block, layer, kv_head) + v_part_) - block_tokens_;
  }

 private:
  std::byte* Layer(BlockId block, int layer) const {
    return base_ + static_cast<size_t>(block) * block_bytes_ +
           static_cast<size_t>(layer) * layer_bytes_;
  }

  std::byte* base_ = nullptr;
  ptrdiff_t block_tokens_ = 0;
  size_t k_part_ = 0;   // bytes of one head
  size_t v_part_ = 0;   // bytes of one head
  size_t k_parts_ = 0;  // of all heads
  size_t layer_bytes_ = 0;
  size_t block_bytes_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KV_LAYOUT_H_

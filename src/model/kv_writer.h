// Writes keys and values into the arena in the layout's dtype.
#ifndef TANDEM_MODEL_KV_WRITER_H_
#define TANDEM_MODEL_KV_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "model/kv_layout.h"
#include "model/ops.h"

namespace tandem::model {

class KvWriter {
 public:
  // A token's place in the arena.
  struct Place {
    BlockId block = 0;
    int32_t slot = 0;  // position mod block_tokens
  };

  KvWriter(const KvLayout& layout, const Ops& ops) : layout_(layout), ops_(ops) {}

  // Once per step, before any Store.
  void SetArena(KvArena arena) { address_ = KvAddress(layout_, arena); }

  // The key (k_dim numbers, after RoPE) and the value (v_dim numbers) of one head of a token. From
  // any thread; each head of a token is stored by one.
  void Store(const Place& place, int layer, int kv_head, const float* k, const float* v) const;

 private:
  void StoreKey(const Place& place, int layer, int kv_head, const float* k) const;
  void StoreValue(const Place& place, int layer, int kv_head, const float* v) const;

  KvLayout layout_;
  const Ops& ops_;
  KvAddress address_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KV_WRITER_H_

// Ids that the KV bookkeeping, the hand-over and the engine share.
#ifndef TANDEM_KV_IDS_H_
#define TANDEM_KV_IDS_H_

#include <cstdint>

namespace tandem::kv {

using TokenId = int32_t;
using BlockId = int32_t;

// One block at one moment of its life. The generation changes exactly when the block is given out
// for new content, and no two contents of one pool ever share a generation; so a (block,
// generation) pair names bytes, not memory.
struct BlockRef {
  BlockId block = 0;
  uint64_t generation = 0;
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

// Never used again within an incarnation (one life of an owner process), and never 0.
using LeaseId = uint64_t;
using PinId = uint64_t;
// A connection of the side channel, as its server numbers them.
using ConnectionId = uint64_t;

}  // namespace tandem::kv

#endif  // TANDEM_KV_IDS_H_

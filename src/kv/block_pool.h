// The paged KV memory of one engine, as bookkeeping: which block is used by how many, which blocks
// hold a known prefix, and which one is given out next. It never touches the bytes.
//
// A block is used (refs > 0) or free. A free block may still be cached: its content is known by
// hash and a later request can revive it. New content goes to blocks without known content first,
// then to the cached block that was freed longest ago.
//
// Owned by the scheduler thread; no method is thread-safe. CHECKs catch misuse (a block freed
// twice, an unknown id): ids never come from outside without having been looked up first.
#ifndef TANDEM_KV_BLOCK_POOL_H_
#define TANDEM_KV_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv/block_hash.h"
#include "kv/ids.h"

namespace tandem::kv {

struct BlockPoolStats {
  int32_t total = 0;
  int32_t used = 0;           // refs > 0
  int32_t free = 0;           // can be given out now, cached ones included
  int32_t cached = 0;         // free blocks whose content can still be revived
  uint64_t query_tokens = 0;  // tokens in full blocks that reservations asked the cache for
  uint64_t hit_tokens = 0;    // of these, found
  uint64_t evictions = 0;     // cached contents given up for new ones
};

class BlockPool {
 public:
  struct Options {
    int32_t blocks = 0;     // > 0
    int block_tokens = 16;  // > 0
    bool prefix_caching = true;
  };
  explicit BlockPool(const Options& options);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // All or nothing: appends `count` blocks for new content (one ref, new generation each) to
  // `out`, or appends none and answers kResourceExhausted.
  Status Allocate(size_t count, std::vector<BlockId>& out);

  // All or nothing, for the start of a request: takes a ref on the longest cached prefix of
  // `prefix` (at most `total` blocks of it) and allocates the rest up to `total` blocks. Appends
  // the blocks in sequence order and returns how many of them were hits; on kResourceExhausted
  // nothing changed, the statistics and the order of eviction included.
  Result<size_t> Reserve(std::span<const BlockHash> prefix, size_t total,
                         std::vector<BlockId>& out);

  // How many leading blocks of `prefix` are cached or in use right now. Changes nothing.
  size_t CachedPrefix(std::span<const BlockHash> prefix) const;

  // One more holder of a used block: a fork, a lease.
  void Ref(BlockId block);
  void Ref(std::span<const BlockId> blocks);
  // Gives back one ref per block, last block first, so that the tail of a chain is evicted before
  // the head that other requests are likelier to share.
  void Unref(std::span<const BlockId> blocks);

  // The block is full and its KV is written: later requests may find it by `hash`. Where another
  // block already stands for the hash, this one stays unknown and is reused first once freed.
  void Publish(BlockId block, const BlockHash& hash);

  // Makes `block` safe to write for one of its holders. Returns the block itself if nobody else
  // holds it and it is not published; otherwise a new block, having given back the caller's ref on
  // the old one: the caller then copies the bytes before anything else is allocated or freed.
  Result<BlockId> CopyOnWrite(BlockId block);

  // Forgets all cached contents. kUnavailable while any block is in use, and nothing changes.
  Status Reset();

  uint64_t Generation(BlockId block) const { return At(block).generation; }
  int32_t Refs(BlockId block) const { return At(block).refs; }
  bool IsPublished(BlockId block) const { return At(block).published; }
  std::vector<BlockRef> WithGenerations(std::span<const BlockId> blocks) const;

  int block_tokens() const { return options_.block_tokens; }
  int32_t total_blocks() const { return options_.blocks; }
  int32_t free_blocks() const { return free_; }
  BlockPoolStats stats() const;

 private:
  static constexpr BlockId kNone = -1;

  struct Block {
    uint64_t generation = 0;
    int32_t refs = 0;
    bool published = false;
    BlockId prev = kNone;  // neighbours in the free list, only while refs == 0
    BlockId next = kNone;
    BlockHash hash{};  // meaningful while published
  };

  const Block& At(BlockId block) const;
  Block& At(BlockId block);
  BlockId TakeForNewContent();
  void Forget(BlockId block);
  void Link(BlockId block, bool at_front);
  void Unlink(BlockId block);
  void Release(BlockId block);
  void Revive(BlockId block);

  Options options_;
  std::vector<Block> blocks_;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> by_hash_;
  BlockId head_ = kNone;  // given out next
  BlockId tail_ = kNone;
  int32_t free_ = 0;
  int32_t cached_ = 0;
  uint64_t next_generation_ = 1;
  BlockPoolStats counters_;
};

}  // namespace tandem::kv

#endif  // TANDEM_KV_BLOCK_POOL_H_

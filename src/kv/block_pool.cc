#include "kv/block_pool.h"

#include "base/check.h"

namespace tandem::kv {

BlockPool::BlockPool(const Options& options) : options_(options) {
  CHECK(options.blocks > 0 && options.block_tokens > 0);
  blocks_.resize(static_cast<size_t>(options.blocks));
  by_hash_.reserve(blocks_.size());
  for (BlockId b = 0; b < options.blocks; ++b) Link(b, /*at_front=*/false);
}

const BlockPool::Block& BlockPool::At(BlockId block) const {
  CHECK(block >= 0 && block < options_.blocks);
  return blocks_[static_cast<size_t>(block)];
}

BlockPool::Block& BlockPool::At(BlockId block) {
  CHECK(block >= 0 && block < options_.blocks);
  return blocks_[static_cast<size_t>(block)];
}

void BlockPool::Link(BlockId block, bool at_front) {
  Block& b = At(block);
  b.prev = at_front ? kNone : tail_;
  b.next = at_front ? head_ : kNone;
  (b.prev == kNone ? head_ : At(b.prev).next) = block;
  (b.next == kNone ? tail_ : At(b.next).prev) = block;
  ++free_;
  if (b.published) ++cached_;
}

void BlockPool::Unlink(BlockId block) {
  Block& b = At(block);
  (b.prev == kNone ? head_ : At(b.prev).next) = b.next;
  (b.next == kNone ? tail_ : At(b.next).prev) = b.prev;
  b.prev = b.next = kNone;
  --free_;
  if (b.published) --cached_;
}

void BlockPool::Forget(BlockId block) {
  Block& b = At(block);
  if (!b.published) return;
  by_hash_.erase(b.hash);
  b.published = false;
}

BlockId BlockPool::TakeForNewContent() {
  const BlockId block = head_;
  CHECK(block != kNone);
  Unlink(block);
  Block& b = At(block);
  if (b.published) ++counters_.evictions;
  Forget(block);
  b.refs = 1;
  b.generation = next_generation_++;
  return block;
}

Status BlockPool::Allocate(size_t count, std::vector<BlockId>& out) {
  if (count > static_cast<size_t>(free_)) {
    return Err(Code::kResourceExhausted, "{} KV blocks wanted, {} of {} free", count, free_,
               options_.blocks);
  }
  out.reserve(out.size() + count);
  for (size_t i = 0; i < count; ++i) out.push_back(TakeForNewContent());
  return {};
}

size_t BlockPool::CachedPrefix(std::span<const BlockHash> prefix) const {
  size_t n = 0;
  while (n < prefix.size() && by_hash_.contains(prefix[n])) ++n;
  return n;
}

Result<size_t> BlockPool::Reserve(std::span<const BlockHash> prefix, size_t total,
                                  std::vector<BlockId>& out) {
  prefix = prefix.first(std::min(prefix.size(), total));
  const size_t hits = CachedPrefix(prefix);
  size_t needed = total - hits;
  for (const BlockHash& hash : prefix.first(hits)) {
    if (Refs(by_hash_.find(hash)->second) == 0) ++needed;
  }
  if (needed > static_cast<size_t>(free_)) {
    return Err(Code::kResourceExhausted, "{} KV blocks wanted, {} of {} free", needed, free_,
               options_.blocks);
  }
  for (const BlockHash& hash : prefix.first(hits)) {
    const BlockId block = by_hash_.find(hash)->second;
    Revive(block);
    out.push_back(block);
  }
  CHECK(Allocate(total - hits, out).has_value());
  if (options_.prefix_caching) {
    const auto tokens = static_cast<uint64_t>(options_.block_tokens);
    counters_.query_tokens += prefix.size() * tokens;
    counters_.hit_tokens += hits * tokens;
  }
  return hits;
}

void BlockPool::Revive(BlockId block) {
  Block& b = At(block);
  if (b.refs == 0) Unlink(block);
  ++b.refs;
}

void BlockPool::Ref(BlockId block) {
  Block& b = At(block);
  CHECK(b.refs > 0);
  ++b.refs;
}

void BlockPool::Ref(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) Ref(block);
}

void BlockPool::Release(BlockId block) {
  Block& b = At(block);
  CHECK(b.refs > 0);
  if (--b.refs == 0) Link(block, /*at_front=*/!b.published);
}

void BlockPool::Unref(std::span<const BlockId> blocks) {
  for (size_t i = blocks.size(); i > 0; --i) Release(blocks[i - 1]);
}

void BlockPool::Publish(BlockId block, const BlockHash& hash) {
  Block& b = At(block);
  CHECK(b.refs > 0);
  if (!options_.prefix_caching || b.published) return;
  if (!by_hash_.emplace(hash, block).second) return;
  b.hash = hash;
  b.published = true;
}

Result<BlockId> BlockPool::CopyOnWrite(BlockId block) {
  const Block& b = At(block);
  CHECK(b.refs > 0);
  if (b.refs == 1 && !b.published) return block;
  if (free_ == 0) {
    return Err(Code::kResourceExhausted, "a KV block wanted for a copy, 0 of {} free",
               options_.blocks);
  }
  const BlockId copy = TakeForNewContent();
  Release(block);
  return copy;
}

Status BlockPool::Reset() {
  if (free_ != options_.blocks) {
    return Err(Code::kUnavailable,
               "the prefix cache cannot be reset while {} of {} KV blocks are in use",
               options_.blocks - free_, options_.blocks);
  }
  for (Block& b : blocks_) b.published = false;
  by_hash_.clear();
  cached_ = 0;
  return {};
}

std::vector<BlockRef> BlockPool::WithGenerations(std::span<const BlockId> blocks) const {
  std::vector<BlockRef> out;
  out.reserve(blocks.size());
  for (const BlockId block : blocks) out.push_back({block, Generation(block)});
  return out;
}

BlockPoolStats BlockPool::stats() const {
  BlockPoolStats s = counters_;
  s.total = options_.blocks;
  s.free = free_;
  s.used = options_.blocks - free_;
  s.cached = cached_;
  return s;
}

}  // namespace tandem::kv

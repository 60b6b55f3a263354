#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace tandem::kv {
namespace {

BlockHash HashOf(int n) {
  const std::vector<TokenId> tokens{n};
  return HashBlock(RootHash(), tokens);
}

std::vector<BlockHash> Chain(int first, int count) {
  std::vector<BlockHash> out;
  for (int i = 0; i < count; ++i) out.push_back(HashOf(first + i));
  return out;
}

TEST(BlockPoolTest, AllocationIsAllOrNothing) {
  BlockPool pool({.blocks = 4});
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Allocate(3, blocks).has_value());
  std::vector<BlockId> more;
  const Status failed = pool.Allocate(2, more);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(more.empty());
  EXPECT_EQ(pool.free_blocks(), 1);
  pool.Unref(blocks);
  EXPECT_EQ(pool.free_blocks(), 4);
}

TEST(BlockPoolTest, GenerationChangesOnlyWithNewContent) {
  BlockPool pool({.blocks = 2});
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Allocate(1, blocks).has_value());
  const BlockId b = blocks[0];
  const uint64_t generation = pool.Generation(b);
  pool.Publish(b, HashOf(1));
  pool.Ref(b);
  pool.Unref(blocks);
  pool.Unref(blocks);
  EXPECT_EQ(pool.Generation(b), generation) << "freed, still cached";
  std::vector<BlockId> again;
  ASSERT_EQ(pool.Reserve(Chain(1, 1), 1, again).value(), 1u);
  EXPECT_EQ(again[0], b);
  EXPECT_EQ(pool.Generation(b), generation) << "revived by a hit";
  pool.Unref(again);
  std::vector<BlockId> all;
  ASSERT_TRUE(pool.Allocate(2, all).has_value());
  EXPECT_NE(pool.Generation(b), generation) << "given out for new content";
  EXPECT_NE(pool.Generation(0), pool.Generation(1));
}

TEST(BlockPoolTest, TailOfAChainIsEvictedFirst) {
  BlockPool pool({.blocks = 4});
  std::vector<BlockId> chain;
  ASSERT_TRUE(pool.Allocate(4, chain).has_value());
  const auto hashes = Chain(0, 4);
  for (size_t i = 0; i < 4; ++i) pool.Publish(chain[i], hashes[i]);
  pool.Unref(chain);
  EXPECT_EQ(pool.stats().cached, 4);
  std::vector<BlockId> one;
  ASSERT_TRUE(pool.Allocate(1, one).has_value());
  EXPECT_EQ(one[0], chain[3]);
  EXPECT_EQ(pool.CachedPrefix(hashes), 3u);
  EXPECT_EQ(pool.stats().evictions, 1u);
}

TEST(BlockPoolTest, FailedReservationChangesNothing) {
  BlockPool pool({.blocks = 4});
  std::vector<BlockId> chain, used;
  ASSERT_TRUE(pool.Allocate(2, chain).has_value());
  for (size_t i = 0; i < 2; ++i) pool.Publish(chain[i], Chain(0, 2)[i]);
  pool.Unref(chain);
  ASSERT_TRUE(pool.Allocate(1, used).has_value());
  const BlockPoolStats before = pool.stats();
  std::vector<BlockId> out;
  // Two hits that lie in the free list and two new blocks: one too many.
  ASSERT_FALSE(pool.Reserve(Chain(0, 2), 4, out).has_value());
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(pool.stats().free, before.free);
  EXPECT_EQ(pool.stats().query_tokens, before.query_tokens);
  ASSERT_EQ(pool.Reserve(Chain(0, 2), 3, out).value(), 2u);
  EXPECT_EQ(pool.free_blocks(), 0);
  EXPECT_EQ(pool.stats().hit_tokens, 32u);
}

TEST(BlockPoolTest, SharedBlocksAreCopiedBeforeAWrite) {
  BlockPool pool({.blocks = 3});
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Allocate(1, blocks).has_value());
  const BlockId b = blocks[0];
  EXPECT_EQ(pool.CopyOnWrite(b).value(), b);
  pool.Ref(b);  // a fork
  const BlockId copy = pool.CopyOnWrite(b).value();
  EXPECT_NE(copy, b);
  EXPECT_EQ(pool.Refs(b), 1);
  EXPECT_EQ(pool.Refs(copy), 1);
  pool.Publish(copy, HashOf(1));
  EXPECT_NE(pool.CopyOnWrite(copy).value(), copy) << "readers may find it by hash";
  EXPECT_EQ(pool.CachedPrefix(Chain(1, 1)), 1u);
}

TEST(BlockPoolTest, ResetForgetsOnlyWhenNothingIsUsed) {
  BlockPool pool({.blocks = 2});
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Allocate(1, blocks).has_value());
  pool.Publish(blocks[0], HashOf(1));
  EXPECT_EQ(pool.Reset().error().code, Code::kUnavailable);
  EXPECT_EQ(pool.CachedPrefix(Chain(1, 1)), 1u);
  pool.Unref(blocks);
  EXPECT_TRUE(pool.Reset().has_value());
  EXPECT_EQ(pool.CachedPrefix(Chain(1, 1)), 0u);
  EXPECT_EQ(pool.stats().cached, 0);
}

TEST(BlockPoolTest, PrefixCachingCanBeOff) {
  BlockPool pool({.blocks = 2, .prefix_caching = false});
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Allocate(1, blocks).has_value());
  pool.Publish(blocks[0], HashOf(1));
  EXPECT_EQ(pool.CachedPrefix(Chain(1, 1)), 0u);
}

// The same rules, as plainly as they can be said: a vector for the free list, scans for searches.
struct NaivePool {
  struct Block {
    int refs = 0;
    uint64_t generation = 0;
    int content = -1;  // the published hash's number
  };
  std::vector<Block> blocks;
  std::vector<BlockId> free_list;  // given out from the front
  uint64_t next_generation = 1;

  explicit NaivePool(int n) : blocks(static_cast<size_t>(n)) {
    for (int i = 0; i < n; ++i) free_list.push_back(i);
  }
  Block& At(BlockId b) { return blocks[static_cast<size_t>(b)]; }
  BlockId Find(int content) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].content == content) return static_cast<BlockId>(i);
    }
    return -1;
  }
  bool Allocate(size_t n, std::vector<BlockId>& out) {
    if (n > free_list.size()) return false;
    for (size_t i = 0; i < n; ++i) {
      const BlockId b = free_list.front();
      free_list.erase(free_list.begin());
      At(b) = {1, next_generation++, -1};
      out.push_back(b);
    }
    return true;
  }
  int Reserve(int first, int prefix, size_t total, std::vector<BlockId>& out) {
    std::vector<BlockId> hits;
    for (int i = 0; i < prefix && hits.size() < total; ++i) {
      const BlockId b = Find(first + i);
      if (b < 0) break;
      hits.push_back(b);
    }
    size_t needed = total - hits.size();
    for (const BlockId b : hits) needed += At(b).refs == 0 ? 1 : 0;
    if (needed > free_list.size()) return -1;
    for (const BlockId b : hits) {
      if (At(b).refs++ == 0) std::erase(free_list, b);
      out.push_back(b);
    }
    EXPECT_TRUE(Allocate(total - hits.size(), out));
    return static_cast<int>(hits.size());
  }
  void Unref(std::vector<BlockId> refs) {
    std::reverse(refs.begin(), refs.end());
    for (const BlockId b : refs) {
      if (--At(b).refs > 0) continue;
      free_list.insert(At(b).content < 0 ? free_list.begin() : free_list.end(), b);
    }
  }
  void Publish(BlockId b, int content) {
    if (At(b).content < 0 && Find(content) < 0) At(b).content = content;
  }
};

class BlockPoolRandomTest : public testing::TestWithParam<uint32_t> {};

TEST_P(BlockPoolRandomTest, AgreesWithTheNaivePool) {
  std::mt19937 random(GetParam());
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  constexpr int kBlocks = 24;
  constexpr int kContents = 40;
  std::vector<BlockHash> hashes = Chain(0, kContents + 8);
  BlockPool pool({.blocks = kBlocks});
  NaivePool naive(kBlocks);
  struct Request {
    int first;
    std::vector<BlockId> blocks;
  };
  std::vector<Request> requests;
  for (int step = 0; step < 3000; ++step) {
    const uint32_t action = random() % 10;
    if (action < 4 || requests.empty()) {
      // Chains overlap: a request wants contents first, first + 1, ... like a shared prefix.
      const int first = static_cast<int>(random() % 5) * 8;
      const int prefix = static_cast<int>(random() % 8);
      const size_t total = static_cast<size_t>(prefix) + random() % 3;
      Request request{first, {}};
      std::vector<BlockId> expected;
      const auto got = pool.Reserve(
          std::span(hashes).subspan(static_cast<size_t>(first), static_cast<size_t>(prefix)), total,
          request.blocks);
      const int hits = naive.Reserve(first, prefix, total, expected);
      ASSERT_EQ(got.has_value(), hits >= 0);
      if (!got.has_value()) continue;
      ASSERT_EQ(*got, static_cast<size_t>(hits));
      ASSERT_EQ(request.blocks, expected);
      requests.push_back(std::move(request));
      continue;
    }
    const size_t at = random() % requests.size();
    Request& request = requests[at];
    if (action < 6) {
      for (size_t i = 0; i < request.blocks.size(); ++i) {
        pool.Publish(request.blocks[i], hashes[static_cast<size_t>(request.first) + i]);
        naive.Publish(request.blocks[i], request.first + static_cast<int>(i));
      }
    } else if (action == 6 && !request.blocks.empty()) {  // fork, then write into the tail
      Request fork{request.first, request.blocks};
      pool.Ref(fork.blocks);
      for (const BlockId b : fork.blocks) ++naive.At(b).refs;
      const auto copy = pool.CopyOnWrite(fork.blocks.back());
      std::vector<BlockId> expected;
      ASSERT_EQ(copy.has_value(), naive.Allocate(1, expected));
      if (copy.has_value()) {
        ASSERT_EQ(*copy, expected[0]);
        naive.Unref({fork.blocks.back()});
        fork.blocks.back() = *copy;
      }
      requests.push_back(std::move(fork));
    } else {
      pool.Unref(request.blocks);
      naive.Unref(request.blocks);
      requests.erase(requests.begin() + static_cast<ptrdiff_t>(at));
    }
    ASSERT_EQ(pool.free_blocks(), static_cast<int32_t>(naive.free_list.size()));
    int cached = 0;
    for (BlockId b = 0; b < kBlocks; ++b) {
      ASSERT_EQ(pool.Refs(b), naive.At(b).refs);
      ASSERT_EQ(pool.Generation(b), naive.At(b).generation);
      ASSERT_EQ(pool.IsPublished(b), naive.At(b).content >= 0);
      cached += naive.At(b).refs == 0 && naive.At(b).content >= 0 ? 1 : 0;
    }
    ASSERT_EQ(pool.stats().cached, cached);
  }
  for (const Request& request : requests) pool.Unref(request.blocks);
  EXPECT_EQ(pool.free_blocks(), kBlocks);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockPoolRandomTest, testing::Range(1u, 21u));

}  // namespace
}  // namespace tandem::kv

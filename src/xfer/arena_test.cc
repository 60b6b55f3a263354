#include "xfer/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "xfer/block_copy.h"

namespace tandem::xfer {
namespace {

Arena MakeArena(bool shared) {
  return Arena::Create({.block_bytes = 4096, .blocks = 8, .shared = shared}).value();
}

TEST(ArenaTest, IsZeroedAndWritable) {
  for (const bool shared : {true, false}) {
    Arena arena = MakeArena(shared);
    EXPECT_EQ(arena.fd() >= 0, shared);
    EXPECT_EQ(arena.bytes(), 8u * 4096);
    for (size_t i = 0; i < arena.bytes(); ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
    std::memset(arena.Block(7), 9, arena.block_bytes());
    const Arena moved = std::move(arena);
    EXPECT_EQ(moved.Block(7)[4095], std::byte{9});
  }
}

TEST(ArenaTest, ReadersSeeWritesButCannotWriteOrShrink) {
  const Arena arena = MakeArena(true);
  const ArenaMapping mapping = ArenaMapping::Map(Fd(dup(arena.fd())), arena.bytes()).value();
  std::memset(arena.Block(3), 42, arena.block_bytes());
  EXPECT_EQ(mapping.data()[3 * 4096], std::byte{42});

  const Fd theirs(dup(arena.fd()));
  void* writable =
      mmap(nullptr, arena.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, theirs.get(), 0);
  EXPECT_EQ(writable, MAP_FAILED);
  EXPECT_EQ(pwrite(theirs.get(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(theirs.get(), 4096), -1);
  EXPECT_EQ(ftruncate(theirs.get(), 1 << 30), -1);
  EXPECT_EQ(fcntl(theirs.get(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "the seals are final";
}

TEST(ArenaTest, ForeignDescriptorsAreNotTrusted) {
  const Arena arena = MakeArena(true);
  const auto code = [](Fd fd, size_t bytes) {
    const auto mapping = ArenaMapping::Map(std::move(fd), bytes);
    return mapping.has_value() ? Code::kOk : mapping.error().code;
  };
  EXPECT_EQ(code(Fd(dup(arena.fd())), size_t{1} << 40), Code::kCorrupt) << "too small";
  EXPECT_EQ(code(Fd(dup(arena.fd())), 0), Code::kCorrupt);
  EXPECT_EQ(code(Fd(), 4096), Code::kCorrupt);
  EXPECT_EQ(code(Fd(open("/dev/zero", O_RDONLY)), 4096), Code::kCorrupt) << "not a file";
  Fd shrinkable(memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(shrinkable.get(), 4096), 0);
  EXPECT_EQ(code(std::move(shrinkable), 4096), Code::kCorrupt) << "not sealed";
}

TEST(ArenaTest, ImpossibleSizesAreErrors) {
  const auto arena =
      Arena::Create({.block_bytes = size_t{1} << 45, .blocks = 1 << 10, .shared = true});
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, Code::kResourceExhausted);
}

TEST(BlockCopyTest, NeighboursInBothArenasAreOneCopy) {
  std::vector<std::byte> from(64), to(64);
  std::vector<PullBlock> blocks;
  // Blocks of 4 bytes: 2 and 3 are neighbours on both sides, 9 only at the source.
  for (const auto [remote, local] : {std::pair{2, 5}, {3, 6}, {9, 1}, {10, 0}}) {
    blocks.push_back({{remote, 0}, to.data() + local * 4});
  }
  const auto ranges = internal::PlanCopies(from.data(), 4, blocks, 64);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].bytes, 8u);
  EXPECT_EQ(ranges[0].from, from.data() + 8);
  EXPECT_EQ(ranges[0].to, to.data() + 20);
  EXPECT_EQ(internal::PlanCopies(from.data(), 4, blocks, 3).size(), 3u + 2 + 2);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  internal::Copy(internal::PlanCopies(from.data(), 4, blocks, 3));
  EXPECT_EQ(std::memcmp(to.data() + 20, from.data() + 8, 8), 0);
  EXPECT_EQ(std::memcmp(to.data() + 4, from.data() + 36, 4), 0);
  EXPECT_EQ(std::memcmp(to.data(), from.data() + 40, 4), 0);
}

}  // namespace
}  // namespace tandem::xfer

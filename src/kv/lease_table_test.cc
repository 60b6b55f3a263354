#include "kv/lease_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace tandem::kv {
namespace {

using std::chrono::seconds;

MonoTime At(int s) { return MonoTime(seconds(s)); }

const std::vector<BlockRef> kBlocks{{3, 11}, {4, 12}, {9, 2}};

LeaseTable::Options SmallTable() {
  LeaseTable::Options options;
  options.incarnation = 77;
  return options;
}

struct TableTest : testing::Test {
  LeaseTable table{SmallTable()};
  LeaseId GrantAt(int s) { return table.Grant("r", kBlocks, At(s)).value().lease; }
};

TEST_F(TableTest, ReleasedLeaseHandsItsBlocksBackOnce) {
  int notified = 0;
  table.SetOnFreed([&] { ++notified; });
  const LeaseId lease = GrantAt(0);
  EXPECT_EQ(table.stats().leased_blocks, 3u);
  EXPECT_TRUE(table.Release(lease));
  EXPECT_FALSE(table.Release(lease));
  EXPECT_EQ(table.Expire(At(100)), 0u);
  const auto freed = table.TakeFreed();
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].blocks, (std::vector<BlockId>{3, 4, 9}));
  EXPECT_EQ(freed[0].end, LeaseEnd::kReleased);
  EXPECT_EQ(freed[0].request_id, "r");
  EXPECT_TRUE(table.TakeFreed().empty());
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(table.stats().leased_blocks, 0u);
}

TEST_F(TableTest, CloseIsValidWhileTheLeaseIsHeld) {
  const LeaseId lease = GrantAt(0);
  const PinId pin = table.Open(lease, 77, kBlocks, 1).value();
  EXPECT_EQ(table.stats().pins, 1u);
  EXPECT_EQ(table.Close(pin, false, At(1)), CloseAnswer::kValid);
  EXPECT_EQ(table.stats().pins, 0u);
  EXPECT_EQ(table.stats().leases, 1u) << "a lease outlives its reads";
  EXPECT_TRUE(table.Release(lease));
}

TEST_F(TableTest, CloseCanRelease) {
  const PinId pin = table.Open(GrantAt(0), 77, kBlocks, 1).value();
  EXPECT_EQ(table.Close(pin, true, At(1)), CloseAnswer::kValid);
  EXPECT_EQ(table.stats().leases, 0u);
  EXPECT_EQ(table.TakeFreed().size(), 1u);
  EXPECT_EQ(table.Close(pin, true, At(2)), CloseAnswer::kValid) << "its answer is kept";
  EXPECT_EQ(table.Close(pin, true, At(32)), CloseAnswer::kStale) << "for one lease time";
}

TEST_F(TableTest, OpenChecksIncarnationLeaseBlockAndGeneration) {
  const LeaseId lease = GrantAt(0);
  const auto code = [&](LeaseId id, uint64_t incarnation, std::vector<BlockRef> blocks) {
    const auto pin = table.Open(id, incarnation, blocks, 1);
    return pin.has_value() ? Code::kOk : pin.error().code;
  };
  EXPECT_EQ(code(lease, 78, kBlocks), Code::kStale);
  EXPECT_EQ(code(lease + 1, 77, kBlocks), Code::kStale);
  EXPECT_EQ(code(lease, 77, {{3, 12}}), Code::kStale);
  EXPECT_EQ(code(lease, 77, {{5, 11}}), Code::kStale);
  EXPECT_EQ(code(lease, 77, {{9, 2}}), Code::kOk) << "a part of the lease will do";
  EXPECT_EQ(table.stats().open_stale, 4u);
}

TEST_F(TableTest, ExpiryKillsPins) {
  const LeaseId lease = GrantAt(0);
  const PinId pin = table.Open(lease, 77, kBlocks, 1).value();
  EXPECT_EQ(table.Expire(At(29)), 0u);
  EXPECT_EQ(table.Expire(At(30)), 1u);
  EXPECT_EQ(table.Close(pin, false, At(30)), CloseAnswer::kStale);
  EXPECT_EQ(table.Open(lease, 77, kBlocks, 1).error().code, Code::kStale);
  EXPECT_EQ(table.TakeFreed().at(0).end, LeaseEnd::kExpired);
}

TEST_F(TableTest, StateDecidesNotTheClock) {
  const PinId pin = table.Open(GrantAt(0), 77, kBlocks, 1).value();
  EXPECT_EQ(table.Close(pin, false, At(500)), CloseAnswer::kValid)
      << "nobody ended the lease, so its blocks are untouched";
}

TEST_F(TableTest, HeartbeatsMoveExpiryForwardUpToTheLimit) {
  const LeaseId lease = GrantAt(0);
  const std::vector<LeaseId> beat{lease, 12345};
  EXPECT_EQ(table.Heartbeat(beat, At(5)), 1u);
  EXPECT_EQ(table.NextExpiry(), At(30)) << "never earlier";
  EXPECT_EQ(table.Heartbeat(beat, At(25)), 1u);
  EXPECT_EQ(table.NextExpiry(), At(45));
  for (int s = 30; s < 150; s += 5) table.Heartbeat(beat, At(s));
  EXPECT_EQ(table.NextExpiry(), At(150)) << "a reader that never comes is not waited for for ever";
  EXPECT_EQ(table.Expire(At(150)), 1u);
  EXPECT_EQ(table.Heartbeat(beat, At(151)), 0u);
  EXPECT_EQ(table.NextExpiry(), kNever);
}

TEST_F(TableTest, LostConnectionTakesItsPinsButNotTheLease) {
  const LeaseId lease = GrantAt(0);
  const PinId dead = table.Open(lease, 77, kBlocks, 1).value();
  const PinId other = table.Open(lease, 77, kBlocks, 2).value();
  table.ConnectionLost(1);
  EXPECT_EQ(table.stats().pins, 1u);
  EXPECT_EQ(table.Close(dead, true, At(1)), CloseAnswer::kStale);
  EXPECT_EQ(table.stats().leases, 1u) << "a stale close releases nothing";
  const PinId retry = table.Open(lease, 77, kBlocks, 3).value();
  EXPECT_EQ(table.Close(retry, false, At(1)), CloseAnswer::kValid);
  EXPECT_EQ(table.Close(other, true, At(1)), CloseAnswer::kValid);
}

TEST_F(TableTest, BlocksBeingSentAreHandedBackAfterwards) {
  const LeaseId lease = GrantAt(0);
  const PinId pin = table.Open(lease, 77, kBlocks, 1).value();
  {
    LeaseRead read(table, pin);
    ASSERT_TRUE(read);
    EXPECT_TRUE(table.Release(lease));
    EXPECT_TRUE(table.TakeFreed().empty());
    EXPECT_EQ(table.stats().draining, 1u);
    EXPECT_EQ(table.stats().leases, 0u);
    EXPECT_EQ(table.Close(pin, false, At(0)), CloseAnswer::kStale);
  }
  EXPECT_EQ(table.TakeFreed().size(), 1u);
  EXPECT_EQ(table.stats().draining, 0u);
  LeaseRead late(table, pin);
  EXPECT_FALSE(late);
}

TEST(LeaseTableTest, IsBounded) {
  LeaseTable::Options options = SmallTable();
  options.max_leases = 2;
  options.max_pins_per_lease = 2;
  options.max_blocks_per_lease = 3;
  options.max_answers = 1;
  LeaseTable table(options);
  const LeaseId first = table.Grant("a", kBlocks, At(0)).value().lease;
  ASSERT_TRUE(table.Grant("b", kBlocks, At(0)).has_value());
  EXPECT_EQ(table.Grant("c", kBlocks, At(0)).error().code, Code::kOverloaded);
  table.Release(first);
  EXPECT_EQ(table.Grant("c", kBlocks, At(0)).error().code, Code::kOverloaded)
      << "until the scheduler took the blocks back";
  table.TakeFreed();
  const LeaseId lease = table.Grant("c", kBlocks, At(0)).value().lease;
  EXPECT_EQ(table.Grant("d", {}, At(0)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(table.Grant("d", std::vector<BlockRef>(4), At(0)).error().code, Code::kInvalidArgument);
  const PinId one = table.Open(lease, 77, kBlocks, 1).value();
  const PinId two = table.Open(lease, 77, kBlocks, 1).value();
  EXPECT_EQ(table.Open(lease, 77, kBlocks, 1).error().code, Code::kOverloaded);
  table.Close(one, false, At(0));
  table.Close(two, false, At(0));
  EXPECT_EQ(table.Close(one, false, At(0)), CloseAnswer::kStale) << "forgotten early: fails closed";
  EXPECT_EQ(table.Close(two, false, At(0)), CloseAnswer::kValid);
}

// A scheduler thread and two network threads at once. The owner writes a block's generation into
// its only "byte" when it gives it new content; a reader that is told kValid must have seen the
// generation that it asked for, before and after.
TEST(LeaseTableTest, ThreadsNeverSeeForeignContentAsValid) {
  LeaseTable::Options options = SmallTable();
  options.lease = std::chrono::milliseconds(1);
  LeaseTable table(options);
  constexpr int kSlots = 8;
  std::array<std::atomic<uint64_t>, kSlots> memory{};
  struct Offer {
    std::atomic<uint64_t> lease{0}, generation{0};
  };
  std::array<Offer, kSlots> offers;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> clock{0};
  std::atomic<int> valid{0}, stale{0}, foreign{0};

  const auto reader = [&](uint32_t seed) {
    std::mt19937 random(seed);
    while (!stop) {
      const auto slot = static_cast<BlockId>(random() % kSlots);
      Offer& offer = offers[static_cast<size_t>(slot)];
      const uint64_t lease = offer.lease;
      const BlockRef ref{slot, offer.generation};
      const auto pin = table.Open(lease, 77, std::span(&ref, 1), seed);
      if (!pin.has_value()) continue;
      const uint64_t first = memory[static_cast<size_t>(slot)];
      std::this_thread::yield();
      const uint64_t second = memory[static_cast<size_t>(slot)];
      const bool release = random() % 4 == 0;
      if (random() % 16 == 0) table.ConnectionLost(seed);
      if (table.Close(*pin, release, MonoTime(Duration(clock.load()))) == CloseAnswer::kValid) {
        ++valid;
        if (first != ref.generation || second != ref.generation) ++foreign;
      } else {
        ++stale;
      }
    }
  };
  std::thread one(reader, 1), two(reader, 2);
  uint64_t generation = 0;
  std::vector<bool> leased(kSlots, false);
  std::mt19937 random(3);
  // On a busy machine the readers get few turns: go on until they had some.
  for (int step = 0; step < 40000 || (valid < 20 && step < 4000000); ++step) {
    clock += 20'000;
    const MonoTime now{Duration(clock.load())};
    table.Expire(now);
    for (const FreedLease& freed : table.TakeFreed()) {
      for (const BlockId b : freed.blocks) leased[static_cast<size_t>(b)] = false;
    }
    const size_t slot = random() % kSlots;
    if (leased[slot]) continue;
    memory[slot] = ++generation;
    const auto granted = table.Grant("", {{static_cast<BlockId>(slot), generation}}, now);
    ASSERT_TRUE(granted.has_value());
    leased[slot] = true;
    offers[slot].generation = generation;
    offers[slot].lease = granted->lease;
    if (step % 16 == 0) std::this_thread::yield();
  }
  stop = true;
  one.join();
  two.join();
  table.Expire(MonoTime(Duration(clock.load())) + options.lease * 10);
  table.TakeFreed();
  EXPECT_EQ(foreign, 0);
  EXPECT_GT(valid, 0);
  const LeaseStats stats = table.stats();
  EXPECT_EQ(stats.leases + stats.pins + stats.leased_blocks + stats.draining, 0u);
  std::printf("valid %d, stale %d\n", valid.load(), stale.load());
}

}  // namespace
}  // namespace tandem::kv

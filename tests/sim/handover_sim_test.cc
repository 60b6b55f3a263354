// 1,000 random schedules of the hand-over under simulated time. Each lets owners and readers work
// while links are slow, leases expire, blocks are recycled, processes are killed and restarted and
// networks part; then everything is brought to rest and counted.
//
// HANDOVER_SEED=N replays one schedule.

#include <gtest/gtest.h>

#include <cstdlib>

#include "handover_world.h"

namespace tandem::xfer::handover {
namespace {

// A sanitizer makes each schedule about five times as slow, and finds in the first hundreds what it
// finds at all.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr uint64_t kSchedules = 200;
#else
constexpr uint64_t kSchedules = 1000;
#endif
constexpr int kOwners = 2;
constexpr int kReaders = 2;

class World {
 public:
  explicit World(uint64_t seed) : sim_(seed), dice_(seed * 7919) {
    lease_ = std::chrono::milliseconds(20 + dice_.Below(100));
    for (int i = 0; i < kOwners; ++i) StartOwner(i);
    for (int i = 0; i < kReaders; ++i) StartReader(i);
  }

  // A quarter of a second of work and faults.
  void Run() {
    const MonoTime end = sim_.Now() + std::chrono::milliseconds(250);
    while (sim_.Now() < end) {
      sim_.RunFor(dice_.UpTo(std::chrono::milliseconds(40)));
      Disturb();
    }
  }

  // Lets everything come to rest, in the order of an orderly shutdown: readers, then owners.
  void Settle() {
    sim_.HealAll();
    board_.winding_down = true;
    sim_.RunFor(std::chrono::seconds(1));
    for (auto& reader : readers_) sim_.RunTask(reader->Stop());
    // Longer than any lease, and than a connection whose machine died stays unnoticed.
    sim_.RunFor(std::chrono::seconds(4));
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(board_.foreign, 0u);
    for (auto& reader : readers_) EXPECT_TRUE(reader->Clean());
    for (auto& owner : owners_) {
      const kv::LeaseStats stats = owner->leases().stats();
      EXPECT_EQ(stats.leases, 0u);
      EXPECT_EQ(stats.draining, 0u);
      EXPECT_EQ(stats.pins, 0u);
      EXPECT_EQ(stats.leased_blocks, 0u);
      EXPECT_EQ(stats.granted, stats.released + stats.expired);
      EXPECT_EQ(owner->pool().stats().used, 0);
      EXPECT_EQ(owner->connections(), 0u);
      sim_.RunTask(owner->Stop());
    }
    EXPECT_EQ(sim_.OpenConnections(), 0u);
  }

  const Board& board() const { return board_; }
  uint64_t TraceHash() const { return sim_.TraceHash(); }

 private:
  static std::string OwnerName(int i) { return "owner" + std::to_string(i); }
  static std::string ReaderName(int i) { return "reader" + std::to_string(i); }

  void StartOwner(int i) {
    OwnerOptions options;
    options.name = OwnerName(i);
    options.port = static_cast<uint16_t>(5600 + i);
    options.incarnation = ++incarnation_;
    options.lease = lease_;
    auto& slot = owners_[static_cast<size_t>(i)];
    slot =
        std::make_unique<OwnerProcess>(sim_.AddHost(options.name), board_, options, dice_.engine());
    slot->Start();
  }

  void StartReader(int i) {
    auto& slot = readers_[static_cast<size_t>(i)];
    const std::vector<std::string> transports =
        dice_.OneIn(2) ? std::vector<std::string>{"shm", "tcp"} : std::vector<std::string>{"tcp"};
    slot = std::make_unique<ReaderProcess>(sim_.AddHost(ReaderName(i)), board_, transports,
                                           dice_.engine());
    slot->Start();
  }

  void Disturb() {
    const int owner = static_cast<int>(dice_.Below(kOwners));
    const int reader = static_cast<int>(dice_.Below(kReaders));
    const auto mode = dice_.OneIn(2) ? rt::KillMode::kProcess : rt::KillMode::kMachine;
    switch (dice_.Below(8)) {
      case 0:
        owners_[static_cast<size_t>(owner)]->host().Kill(mode);
        owners_[static_cast<size_t>(owner)].reset();
        sim_.RunFor(dice_.UpTo(std::chrono::milliseconds(20)));
        StartOwner(owner);
        break;
      case 1:
        readers_[static_cast<size_t>(reader)]->host().Kill(mode);
        readers_[static_cast<size_t>(reader)].reset();
        StartReader(reader);
        break;
      case 2:
        sim_.Partition(OwnerName(owner), ReaderName(reader));
        break;
      case 3:
        sim_.HealAll();
        break;
      case 4:
        sim_.ResetConnections(OwnerName(owner), ReaderName(reader));
        break;
      default: {
        // Slow enough that a pull takes a good part of a lease, or fast.
        rt::SimLink link;
        link.latency = dice_.UpTo(std::chrono::milliseconds(3));
        link.jitter = dice_.UpTo(std::chrono::milliseconds(2));
        link.bytes_per_second = dice_.OneIn(2) ? 1e5 : 1e8;
        link.max_read = dice_.OneIn(2) ? 500 : 0;
        sim_.SetLink(OwnerName(owner), ReaderName(reader), link);
        sim_.SetLink(ReaderName(reader), OwnerName(owner), link);
      }
    }
  }

  rt::SimRuntime sim_;
  Dice dice_;
  Board board_;
  Duration lease_{};
  uint64_t incarnation_ = 100;
  std::array<std::unique_ptr<OwnerProcess>, kOwners> owners_;
  std::array<std::unique_ptr<ReaderProcess>, kReaders> readers_;
};

struct Tally {
  uint64_t granted = 0, pulled = 0, stale = 0, failed = 0, shm = 0, tcp = 0;
};

void RunSchedule(uint64_t seed, Tally& tally) {
  SCOPED_TRACE(testing::Message() << "HANDOVER_SEED=" << seed);
  World world(seed);
  world.Run();
  world.Settle();
  world.ExpectNothingLeft();
  const Board& board = world.board();
  tally.granted += board.granted;
  tally.pulled += board.pulled;
  tally.stale += board.stale;
  tally.failed += board.failed;
  for (const auto& [transport, n] : board.by_transport) {
    (transport == "shm" ? tally.shm : tally.tcp) += n;
  }
}

TEST(HandoverSimTest, ThousandSchedulesUseNoForeignByteAndLeakNothing) {
  Tally tally;
  if (const char* seed = std::getenv("HANDOVER_SEED"); seed != nullptr) {
    RunSchedule(std::strtoull(seed, nullptr, 10), tally);
  } else {
    for (uint64_t s = 1; s <= kSchedules && !testing::Test::HasFailure(); ++s)
      RunSchedule(s, tally);
    // The schedules are worth something only if all of this happens in them.
    EXPECT_GT(tally.shm, kSchedules);
    EXPECT_GT(tally.tcp, kSchedules);
    EXPECT_GT(tally.stale, kSchedules);
    EXPECT_GT(tally.failed, kSchedules);
  }
  std::printf("granted %lu, pulled %lu (shm %lu, tcp %lu), stale %lu, failed otherwise %lu\n",
              tally.granted, tally.pulled, tally.shm, tally.tcp, tally.stale, tally.failed);
}

TEST(HandoverSimTest, SameSeedSameTrace) {
  const auto trace = [] {
    World world(42);
    world.Run();
    world.Settle();
    world.ExpectNothingLeft();
    return world.TraceHash();
  };
  EXPECT_EQ(trace(), trace());
}

}  // namespace
}  // namespace tandem::xfer::handover

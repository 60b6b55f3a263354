#include "rt/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "rt/lateness_governor.h"

namespace tandem::rt {
namespace {

using std::chrono::milliseconds;

TEST(ThreadTeam, EveryMemberRunsOnceAndBarriersHold) {
  ThreadTeam team({.max_threads = 3});
  ASSERT_EQ(team.MaxSize(), 3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> written(3, -1);
    std::atomic<int> wrong = 0;
    std::atomic<int> ran = 0;
    const auto work = [&](TeamMember& member) {
      ++ran;
      for (int phase = 0; phase < 10; ++phase) {
        written[static_cast<size_t>(member.index())] = phase;
        member.Barrier();
        for (int i = 0; i < member.count(); ++i) wrong += written[static_cast<size_t>(i)] != phase;
        member.Barrier();
      }
    };
    team.Run(work);
    ASSERT_EQ(wrong, 0);
    ASSERT_EQ(ran, team.LastSize());
  }
}

TEST(ThreadTeam, WakesParkedThreads) {
  ThreadTeam team({.max_threads = 2, .spin = Duration(0), .adaptive = false});
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) team.Run([&](TeamMember&) { ++ran; });
  EXPECT_EQ(ran, 200);
}

TEST(ThreadTeam, OneThreadRunsOnTheCaller) {
  ThreadTeam team({.max_threads = 1});
  const auto self = std::this_thread::get_id();
  team.Run([&](TeamMember& member) {
    EXPECT_TRUE(std::this_thread::get_id() == self);
    EXPECT_EQ(member.count(), 1);
    member.Barrier();
  });
}

TEST(ThreadTeam, MembersFlushDenormals) {
  ThreadTeam team({.max_threads = 2, .adaptive = false});
  std::atomic<int> flushed = 0;
  team.Run([&](TeamMember&) {
    volatile float tiny = 1e-38F;
    const volatile float quotient = tiny / 1000.0F;
    flushed += quotient == 0.0F;
  });
#if defined(__x86_64__)
  EXPECT_EQ(flushed, 2);
#endif
}

TEST(ThreadTeam, AFixedShareLimitsTheThreads) {
  ThreadTeam team({.max_threads = 64, .cpu_share = 1e-9});
  EXPECT_EQ(team.MaxSize(), 1);
}

class Governor : public testing::Test {
 protected:
  // Runs regions of 5 ms until `length` has passed; each loses `lost` of 5 ms to others.
  void Run(Duration length, Duration lost) {
    const MonoTime end = now_ + length;
    while (now_ < end) {
      const int threads = governor_.Limit(now_);
      ++regions_[static_cast<size_t>(threads)];
      now_ += milliseconds(5);
      const bool disturbed = threads == 4;
      governor_.Report(now_, threads, milliseconds(5), disturbed ? lost : Duration(0),
                       disturbed ? 1 : 0);
    }
  }
  LatenessGovernor governor_{4};
  MonoTime now_{std::chrono::seconds(5)};
  std::vector<int> regions_ = std::vector<int>(5);
};

TEST_F(Governor, KeepsAllThreadsOnAQuietMachine) {
  Run(std::chrono::seconds(1), std::chrono::microseconds(500));
  EXPECT_EQ(regions_[4], 200);
}

TEST_F(Governor, StepsAsideForABusyNeighbourAndProbesSeldom) {
  Run(std::chrono::seconds(20), milliseconds(3));
  EXPECT_GT(regions_[3], 3900);
  EXPECT_GT(regions_[4], 0);
  EXPECT_LT(regions_[4], 80);
}

TEST_F(Governor, TakesTheCoresBackWhenTheNeighbourIsGone) {
  Run(std::chrono::seconds(1), milliseconds(3));
  Run(std::chrono::seconds(5), Duration(0));
  regions_.assign(5, 0);
  Run(std::chrono::seconds(1), Duration(0));
  EXPECT_EQ(regions_[4], 200);
}

}  // namespace
}  // namespace tandem::rt

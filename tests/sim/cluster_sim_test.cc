// A thousand requests through a cluster whose processes are killed and whose links are cut.
#include <gtest/gtest.h>

#include "cluster_world.h"

namespace tandem::cluster_sim {
namespace {

using std::chrono::seconds;

struct Tally {
  int complete = 0;
  int refused = 0;
  int error_events = 0;
  int left = 0;
};

Tally Check(World& world) {
  Tally tally;
  for (const auto& request : world.requests()) {
    EXPECT_EQ(world.Wrong(*request), "");
    if (request->broken)
      ++tally.left;
    else if (request->error_event)
      ++tally.error_events;
    else if (request->status == 200)
      ++tally.complete;
    else
      ++tally.refused;
  }
  return tally;
}

TEST(ClusterSim, WithoutFaultsEveryRequestCompletes) {
  World world(3);
  world.RecordAnswers();
  world.Run(200, seconds(20), /*faults=*/false);
  const Tally tally = Check(world);
  // Some clients leave and some ask for an answer in a few milliseconds.
  EXPECT_GT(tally.complete, 160);
  EXPECT_EQ(world.Leaks(), "");
  EXPECT_EQ(world.FrontendMetric("tandem_frontend_retries_total"), "none");
  EXPECT_NE(world.FrontendMetric(
                R"(tandem_frontend_kv_pulled_bytes_total{model="mock",transport="tcp"})"),
            "none");
}

TEST(ClusterSim, KillsAndPartitionsNeitherHangNorLeakNorMixTexts) {
  World world(17);
  world.RecordAnswers();
  world.Run(1000, seconds(60), /*faults=*/true);
  const Tally tally = Check(world);
  EXPECT_EQ(world.Leaks(), "");
  EXPECT_GT(world.kills(), 10);
  EXPECT_GT(world.partitions(), 3);
  EXPECT_GT(tally.complete, 600);
  EXPECT_GT(tally.error_events + tally.refused, 0) << "the faults hit nobody";
  RecordProperty("complete", tally.complete);
  RecordProperty("error_events", tally.error_events);
  RecordProperty("refused", tally.refused);
}

TEST(ClusterSim, TheSameSeedGivesTheSameTrace) {
  const auto run = [](uint64_t seed) {
    World world(seed);
    world.RecordAnswers();
    world.Run(150, seconds(10), /*faults=*/true);
    return world.TraceHash();
  };
  const uint64_t first = run(5);
  EXPECT_EQ(run(5), first);
  EXPECT_NE(run(6), first);
}

}  // namespace
}  // namespace tandem::cluster_sim

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "apps/chat.h"
#include "apps/child_process.h"
#include "apps/private_folder.h"
#include "apps/process_options.h"
#include "apps/progress.h"
#include "apps/serve_plan.h"
#include "apps/serve_session.h"
#include "apps/status_channel.h"
#include "apps/supervisor.h"
#include "rt/real_runtime.h"

namespace tandem::apps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;

ParsedOptions ParseServe(Words words) {
  auto parsed = ParseOptions(kServe, words, [](std::string_view) { return std::nullopt; });
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *std::move(parsed);
}

// The value that follows the last appearance of an option: the one that counts.
std::string ValueOf(const PlannedChild& child, const std::string& option) {
  const auto& words = child.spec.arguments;
  for (size_t i = words.size() - 1; i > 0; --i)
    if (words[i - 1] == option) return words[i];
  return "(absent)";
}

const hub::ResolvedModel kModel{"m.gguf", "m.gguf", false};

TEST(ServePlan, AModelOfTheHubKeepsItsName) {
  const hub::ResolvedModel model{"/cache/snapshots/1", "org/name", true};
  const auto plan = MakeServePlan(ParseServe({"org/name", "--revision", "v1"}), "/d", model);
  ASSERT_TRUE(plan);
  EXPECT_EQ(ValueOf(plan->children[1], "--model"), "/cache/snapshots/1");
  EXPECT_EQ(ValueOf(plan->children[1], "--served-model-name"), "org/name");
  EXPECT_EQ(ValueOf(plan->children[1], "--revision"), "(absent)");
  const auto named =
      MakeServePlan(ParseServe({"org/name", "--served-model-name", "n"}), "/d", model);
  EXPECT_EQ(ValueOf(named->children[1], "--served-model-name"), "n");
}

TEST(ServePlan, OneAggregatedWorkerByDefault) {
  const auto plan = MakeServePlan(ParseServe({"m.gguf"}), "/d", kModel);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->children.size(), 2u);
  EXPECT_EQ(plan->children[0].spec.arguments.front(), "frontend");
  EXPECT_EQ(ValueOf(plan->children[0], "--discovery-path"), "/d");
  EXPECT_EQ(ValueOf(plan->children[1], "--model"), "m.gguf");
  EXPECT_EQ(ValueOf(plan->children[1], "--disaggregation-mode"), "agg");
  EXPECT_EQ(ValueOf(plan->children[1], "--system-port"), "0");
  EXPECT_EQ(ValueOf(plan->children[1], "--kv-transfer-config"), "(absent)");
}

TEST(ServePlan, SplitsRolesAndHandsOptionsOn) {
  const auto plan =
      MakeServePlan(ParseServe({"m.gguf", "--prefill", "2", "--decode", "1", "--http-port", "0",
                                "--threads", "1", "--served-model-name", "tiny"}),
                    "/d", kModel);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->children.size(), 4u);
  EXPECT_EQ(plan->shape, "2 prefill + 1 decode workers");
  EXPECT_EQ(ValueOf(plan->children[0], "--http-port"), "0");
  EXPECT_EQ(plan->children[1].name, "prefill-1");
  EXPECT_EQ(plan->children[3].name, "decode-1");
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(ValueOf(plan->children[i], "--kv-transfer-config"), kTransferConfigExample);
    EXPECT_EQ(ValueOf(plan->children[i], "--workers-on-host"), "3");
    EXPECT_EQ(ValueOf(plan->children[i], "--threads"), "1");
    EXPECT_EQ(ValueOf(plan->children[i], "--served-model-name"), "tiny");
    EXPECT_EQ(ValueOf(plan->children[i], "--side-channel-port"), "0");
    EXPECT_EQ(ValueOf(plan->children[i], "--request-plane"), "tcp");
  }
  // What a child gets must be what its own parser accepts.
  for (const PlannedChild& child : plan->children) {
    const Words words(child.spec.arguments.begin() + 1, child.spec.arguments.end());
    const Command command = child.name == "frontend" ? kFrontend : kWorker;
    const auto parsed = ParseOptions(command, words, [](std::string_view) { return std::nullopt; });
    EXPECT_TRUE(parsed) << parsed.error().message;
  }
}

TEST(ServePlan, PrefillAloneIsRefused) {
  const auto plan = MakeServePlan(ParseServe({"m.gguf", "--prefill", "1"}), "/d", kModel);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("--decode 1"), std::string::npos);
}

TEST(Backoff, DoublesAndForgetsAfterALongLife) {
  Backoff backoff;
  EXPECT_EQ(backoff.Next(seconds(1)), milliseconds(100));
  EXPECT_EQ(backoff.Next(seconds(1)), milliseconds(200));
  EXPECT_EQ(backoff.Next(seconds(1)), milliseconds(400));
  for (int i = 0; i < 50; ++i) EXPECT_LE(backoff.Next(seconds(1)), seconds(10));
  EXPECT_EQ(backoff.Next(seconds(1)), seconds(10));
  EXPECT_EQ(backoff.Next(seconds(61)), milliseconds(100));
}

TEST(StatusChannel, LinesAreReadBack) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    StatusWriter writer(ends[1]);
    writer.Load(0.5);
    writer.Load(0.501);  // no news
    writer.Ready("127.0.0.1:8");
  }
  LinePipe pipe(ends[0]);
  const auto lines = pipe.Read();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_DOUBLE_EQ(ParseStatusLine(lines[0])->fraction, 0.5);
  EXPECT_TRUE(ParseStatusLine(lines[1])->ready);
  EXPECT_EQ(ParseStatusLine(lines[1])->address, "127.0.0.1:8");
  EXPECT_TRUE(ParseStatusLine("alive")->alive);
  EXPECT_FALSE(ParseStatusLine("load x"));
  EXPECT_FALSE(ParseStatusLine("load 7"));
  EXPECT_FALSE(ParseStatusLine(""));
}

// The child is this very test binary, which only lists its tests.
TEST(ChildProcess, ReadsItsLinesAndItsEnd) {
  auto child = ChildProcess::Start({{"--gtest_list_tests"}, {{"TANDEM_TEST_CHILD", "1"}}});
  ASSERT_TRUE(child) << child.error().message;
  Words lines;
  std::optional<int> status;
  while (!status) {
    status = (*child)->ExitStatus();
    for (auto& line : (*child)->log().Read()) lines.push_back(std::move(line));
    usleep(2000);
  }
  EXPECT_EQ(DescribeExit(*status), "exit code 0");
  EXPECT_NE(std::ranges::find(lines, "ChildProcess."), lines.end());
}

TEST(ChildProcess, DiesWithItsOwner) {
  pid_t pid = 0;
  {
    // Without tests to run it would end at once; repeated for ever it stays.
    auto child = ChildProcess::Start({{"--gtest_filter=Progress.*", "--gtest_repeat=-1"}, {}});
    ASSERT_TRUE(child);
    pid = (*child)->pid();
    EXPECT_EQ(kill(pid, 0), 0);
    EXPECT_FALSE((*child)->ExitStatus());
  }
  EXPECT_NE(kill(pid, 0), 0);
}

// The child of the next test: ready at once, then silent. Nothing where that test did not start it.
TEST(SilentChild, Plays) {
  if (std::getenv("TANDEM_TEST_SILENT") == nullptr) return;
  constexpr int kStatusFd = 3;
  StatusWriter(kStatusFd).Ready("here");
  sleep(60);
}

TEST(Supervisor, KillsAndRestartsAChildThatHangs) {
  rt::RealRuntime runtime;
  rt::CancelSource stop;
  SupervisedChild* child = nullptr;
  Supervisor supervisor(
      runtime, [](const std::string&) {},
      [&] {
        if (child->restarts >= 2 && child->ready) stop.Cancel();
      },
      milliseconds(200));
  child =
      &supervisor.Add("silent", {{"--gtest_filter=SilentChild.*"}, {{"TANDEM_TEST_SILENT", "1"}}});
  const auto run = [](Supervisor& s, rt::CancelToken token, Status& ended) -> rt::Task<void> {
    ended = co_await s.Run(std::move(token), milliseconds(100));
  };
  const auto give_up = runtime.RunAt(runtime.Now() + seconds(30), [&] { stop.Cancel(); });
  Status ended;
  runtime.RunTask(run(supervisor, stop.Token(), ended));
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(child->restarts, 2);
}

TEST(PrivateFolder, IsRemovedAndAbandonedOnesAreSwept) {
  std::string path;
  {
    auto folder = PrivateFolder::Make();
    ASSERT_TRUE(folder) << folder.error().message;
    path = (*folder)->path();
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
    // A second supervisor leaves a living one's folder alone.
    auto other = PrivateFolder::Make();
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(Progress, DrawsABar) {
  EXPECT_EQ(RenderBar("x", 0.5), "[###############...............]  50 % x");
  EXPECT_EQ(RenderBar("x", 7), "[##############################] 100 % x");
}

TEST(Sse, ReadsEventsHoweverTheyAreCut) {
  const std::string stream =
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n: comment\n\ndata: [DONE]\n\n";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    SseReader reader;
    Words events = reader.Feed(std::string_view(stream).substr(0, cut));
    for (auto& event : reader.Feed(std::string_view(stream).substr(cut)))
      events.push_back(std::move(event));
    ASSERT_EQ(events.size(), 2u) << cut;
    EXPECT_EQ(ChunkText(events[0]).value(), "a");
    EXPECT_EQ(ChunkText(events[1]).value(), "");
  }
  EXPECT_FALSE(ChunkText("{\"error\":{\"message\":\"worker died\"}}"));
  EXPECT_FALSE(ChunkText("nonsense"));
}

TEST(ServeSession, NamesAnAddressThatClientsCanReach) {
  EXPECT_EQ(ReachableAddress({"0.0.0.0", 80}).ToString(), "127.0.0.1:80");
  EXPECT_EQ(ReachableAddress({"10.0.0.1", 80}).ToString(), "10.0.0.1:80");
}

}  // namespace
}  // namespace tandem::apps

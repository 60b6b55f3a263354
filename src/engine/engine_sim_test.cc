// Mock engines under simulated time: the whole engine but the kernels, hand-over included.
#include <gtest/gtest.h>

#include "engine/engine_test_util.h"
#include "engine/loaded_engine.h"
#include "engine/mock_executor.h"
#include "engine/transfer_json.h"
#include "rt/sim_runtime.h"

namespace tandem::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

WorkerOptions MockWorker(Role role) {
  WorkerOptions options;
  options.engine = EngineKind::kMock;
  options.role = role;
  options.mock.vocab = 1000;
  options.mock.block_bytes = 128;
  options.num_gpu_blocks_override = 200;
  options.kv_transfer = TestTransfer();
  options.transports = {"tcp"};
  return options;
}

struct Host {
  Host(rt::SimRuntime& sim, const std::string& name, WorkerOptions options)
      : host(sim.AddHost(name)) {
    options.side_channel_host = name;
    host.Spawn(Load(this, std::move(options)));
    EXPECT_TRUE(sim.RunUntil([this] { return loaded.has_value(); }, seconds(1)));
    EXPECT_TRUE(loaded->has_value()) << loaded->error().message;
  }
  static rt::Task<void> Load(Host* self, WorkerOptions options) {
    self->loaded = co_await LoadMockEngine(self->host, self->metrics, std::move(options));
  }
  Engine& engine() { return *(*loaded)->engine; }
  // Ends orderly, as a worker does.
  void Stop(rt::SimRuntime& sim) {
    bool stopped = false;
    host.Spawn(StopTask(this, &stopped));
    EXPECT_TRUE(sim.RunUntil([&] { return stopped; }, seconds(100)));
  }
  static rt::Task<void> StopTask(Host* self, bool* stopped) {
    co_await self->engine().Stop();
    *stopped = true;
  }

  rt::SimHost& host;
  Metrics metrics;
  std::optional<Result<LoadedEngine>> loaded;
};

wire::GenerateRequest Ask(int64_t length, int32_t salt, int32_t max_tokens,
                          std::string params = "") {
  wire::GenerateRequest request;
  request.request_id = "r" + std::to_string(salt);
  for (int64_t i = 0; i < length; ++i)
    request.prompt.push_back(static_cast<wire::TokenId>((i * 7 + salt * 131) % 1000));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.kv_transfer_params = std::move(params);
  return request;
}

class EngineSim : public ::testing::Test {
 protected:
  bool Run(const TestCall& call) {
    return sim.RunUntil([&] { return call.Done(); }, seconds(500));
  }
  std::vector<wire::TokenId> Alone(wire::GenerateRequest request) {
    Host alone(sim, "alone" + std::to_string(++alone_), MockWorker(Role::kAggregated));
    request.kv_transfer_params.clear();
    TestCall call;
    call.Start(alone.engine(), std::move(request));
    EXPECT_TRUE(Run(call) && call.Ok());
    alone.Stop(sim);
    return call.text.at(0);
  }

  rt::SimRuntime sim{7};
  int alone_ = 0;
};

TEST_F(EngineSim, PrefillAndDecodeGiveTheTextOfOneWorker) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  Host decode(sim, "d", MockWorker(Role::kDecode));
  TestCall first;
  first.Start(prefill.engine(), Ask(700, 1, 50, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(first) && first.Ok());
  ASSERT_FALSE(first.params.empty());
  EXPECT_EQ(first.text[0].size(), 1U);
  EXPECT_EQ(prefill.engine().Stats().leases, 1);
  TestCall second;
  second.Start(decode.engine(), Ask(700, 1, 50, first.params));
  ASSERT_TRUE(Run(second) && second.Ok());
  EXPECT_EQ(second.text[0], Alone(Ask(700, 1, 50)));
  EXPECT_EQ(second.first.computed_prompt_tokens, 1);
  EXPECT_EQ(second.first.pulled_tokens, 699);
  EXPECT_EQ(second.first.pulled_bytes, 44 * 128);
  EXPECT_EQ(second.first.pull_transport, "tcp");
  EXPECT_EQ(second.first.fallback_reason, "");
  sim.RunFor(seconds(1));
  ExpectQuiet(prefill.engine());
  ExpectQuiet(decode.engine());
  // Once more: only the last, partial block is pulled now.
  TestCall third;
  third.Start(prefill.engine(), Ask(700, 1, 50, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(third));
  TestCall fourth;
  fourth.Start(decode.engine(), Ask(700, 1, 50, third.params));
  ASSERT_TRUE(Run(fourth) && fourth.Ok());
  EXPECT_EQ(fourth.text[0], second.text[0]);
  EXPECT_EQ(fourth.first.cached_tokens, 43 * 16);
  EXPECT_EQ(fourth.first.pulled_bytes, 128);
  prefill.Stop(sim);
  decode.Stop(sim);
}

TEST_F(EngineSim, ManyChoicesNeedOneLeaseAndOnePull) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  Host decode(sim, "d", MockWorker(Role::kDecode));
  auto request = Ask(100, 3, 20, std::string(kPrefillParams));
  request.n = 4;
  request.sampling.temperature = 1;
  request.sampling.seed = 11;
  TestCall first;
  first.Start(prefill.engine(), request);
  ASSERT_TRUE(Run(first) && first.Ok());
  EXPECT_EQ(prefill.engine().Stats().leases_granted, 1U);
  request.kv_transfer_params = first.params;
  TestCall second;
  second.Start(decode.engine(), request);
  ASSERT_TRUE(Run(second) && second.Ok());
  ASSERT_EQ(second.text.size(), 4U);
  EXPECT_EQ(second.text[0], Alone(request));
  EXPECT_NE(second.text[0], second.text[1]);
  EXPECT_EQ(decode.engine().Stats().pulls, 1U);
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_computed, 1U);
  ExpectQuiet(decode.engine());
  prefill.Stop(sim);
  decode.Stop(sim);
}

TEST_F(EngineSim, ADeadPrefillWorkerMeansLocalComputation) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  Host decode(sim, "d", MockWorker(Role::kDecode));
  TestCall first;
  first.Start(prefill.engine(), Ask(300, 1, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(first) && first.Ok());
  prefill.host.Kill();
  TestCall second;
  second.Start(decode.engine(), Ask(300, 1, 10, first.params));
  ASSERT_TRUE(Run(second) && second.Ok());
  EXPECT_EQ(second.text[0], Alone(Ask(300, 1, 10)));
  EXPECT_NE(second.first.fallback_reason, "");
  EXPECT_EQ(second.first.computed_prompt_tokens, 300);
  EXPECT_EQ(decode.engine().Stats().fallbacks.size(), 1U);
  decode.Stop(sim);
}

TEST_F(EngineSim, AnExpiredLeaseIsStaleAndHeartbeatsKeepOneAlive) {
  auto options = MockWorker(Role::kDecode);
  options.max_num_seqs = 1;
  options.mock.decode_token = milliseconds(200);
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  Host decode(sim, "d", options);
  TestCall late;
  late.Start(prefill.engine(), Ask(300, 1, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(late));
  sim.RunFor(seconds(31));
  ExpectQuiet(prefill.engine());
  TestCall second;
  second.Start(decode.engine(), Ask(300, 1, 10, late.params));
  ASSERT_TRUE(Run(second) && second.Ok());
  EXPECT_EQ(second.first.fallback_reason, "stale");

  // Sixty seconds in the queue, two lease times, and the KV is still there.
  TestCall busy;
  busy.Start(decode.engine(), Ask(20, 9, 300));
  TestCall lease;
  lease.Start(prefill.engine(), Ask(300, 2, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(lease));
  TestCall waiting;
  waiting.Start(decode.engine(), Ask(300, 2, 10, lease.params));
  ASSERT_TRUE(Run(busy) && busy.Ok());
  ASSERT_TRUE(Run(waiting) && waiting.Ok());
  EXPECT_EQ(waiting.first.fallback_reason, "");
  EXPECT_EQ(waiting.first.pulled_tokens, 299);

  // Beyond four lease times it is given up.
  TestCall longer;
  longer.Start(decode.engine(), Ask(20, 8, 700));
  TestCall another;
  another.Start(prefill.engine(), Ask(300, 3, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(another));
  TestCall given_up;
  given_up.Start(decode.engine(), Ask(300, 3, 10, another.params));
  ASSERT_TRUE(Run(given_up) && given_up.Ok());
  EXPECT_EQ(given_up.first.fallback_reason, "deadline");
  sim.RunFor(seconds(1));
  ExpectQuiet(prefill.engine());
  prefill.Stop(sim);
  decode.Stop(sim);
}

TEST_F(EngineSim, CancelAndDeadlineFreeEverythingOnBothSides) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  auto options = MockWorker(Role::kDecode);
  options.max_num_seqs = 1;
  Host decode(sim, "d", options);
  TestCall running;
  running.Start(decode.engine(), Ask(50, 5, 100000));
  TestCall lease;
  lease.Start(prefill.engine(), Ask(300, 1, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(lease));
  TestCall queued;
  queued.Start(decode.engine(), Ask(300, 1, 10, lease.params));
  TestCall timed;
  timed.Start(decode.engine(), Ask(300, 6, 10), sim.Now() + milliseconds(50));
  sim.RunFor(milliseconds(20));
  EXPECT_EQ(decode.engine().Stats().running, 1);
  EXPECT_EQ(prefill.engine().Stats().leases, 1);
  queued.cancel.Cancel();
  running.cancel.Cancel();
  EXPECT_EQ(queued.EndCode(), Code::kCancelled);
  EXPECT_EQ(running.EndCode(), Code::kCancelled);
  ASSERT_TRUE(Run(timed));
  sim.RunFor(milliseconds(200));
  ExpectQuiet(prefill.engine());
  ExpectQuiet(decode.engine());
  prefill.Stop(sim);
  decode.Stop(sim);
}

TEST_F(EngineSim, DeadlineEndsARunningRequest) {
  Host worker(sim, "w", MockWorker(Role::kAggregated));
  TestCall call;
  call.Start(worker.engine(), Ask(50, 5, 3000), sim.Now() + milliseconds(100));
  ASSERT_TRUE(Run(call));
  EXPECT_EQ(call.EndCode(), Code::kDeadlineExceeded);
  EXPECT_GT(call.text[0].size(), 5U);
  sim.RunFor(milliseconds(10));
  ExpectQuiet(worker.engine());
  worker.Stop(sim);
}

TEST_F(EngineSim, AStepForNobodyEndsAtOnce) {
  auto options = MockWorker(Role::kAggregated);
  options.mock.prefill_token = milliseconds(100);
  Host worker(sim, "w", options);
  TestCall call;
  call.Start(worker.engine(), Ask(400, 5, 10));
  sim.RunFor(milliseconds(5));
  EXPECT_EQ(worker.engine().Stats().running, 1);
  call.cancel.Cancel();
  sim.RunFor(milliseconds(1));
  ExpectQuiet(worker.engine());
  EXPECT_EQ(worker.engine().Stats().prompt_tokens_computed, 0U);
  worker.Stop(sim);
}

TEST_F(EngineSim, ReleaseEndsRunningAndFinishedPrefillLegs) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  TestCall done;
  done.Start(prefill.engine(), Ask(300, 1, 10, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(done));
  TestCall running;
  running.Start(prefill.engine(), Ask(300, 2, 10, std::string(kPrefillParams)));
  sim.RunFor(milliseconds(1));
  prefill.engine().Release("r1");
  prefill.engine().Release("r2");
  prefill.engine().Release("unknown");
  EXPECT_EQ(running.EndCode(), Code::kCancelled);
  sim.RunFor(milliseconds(1));
  ExpectQuiet(prefill.engine());
  prefill.Stop(sim);
}

TEST_F(EngineSim, RolesAndHostileParametersAreRefused) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  auto plain = MockWorker(Role::kDecode);
  Host decode(sim, "d", plain);
  const auto code = [&](Engine& engine, std::string params) {
    TestCall call;
    call.Start(engine, Ask(30, 1, 3, std::move(params)));
    EXPECT_TRUE(Run(call));
    return call.EndCode();
  };
  EXPECT_EQ(code(prefill.engine(), ""), Code::kInvalidArgument);
  EXPECT_EQ(code(decode.engine(), std::string(kPrefillParams)), Code::kInvalidArgument);
  EXPECT_EQ(code(decode.engine(), ""), Code::kOk);
  for (
      const char* bad :
      {"[]", "{", "7", R"({"do_remote_prefill":true})", R"({"do_remote_prefill":1})",
       R"({"do_remote_prefill":true,"do_remote_decode":true})",
       R"({"do_remote_prefill":true,"remote_engine_id":"e","remote_request_id":"r","remote_host":"h",
            "remote_port":70000})"})
    EXPECT_EQ(code(decode.engine(), bad), Code::kInvalidArgument) << bad;
  // Well-formed lies: another's lease, another length, no such host. The prompt is computed here.
  TestCall lease;
  lease.Start(prefill.engine(), Ask(40, 1, 3, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(lease));
  auto lie = ParseTransfer(lease.params)->remote.value();
  EXPECT_EQ(WriteTransfer(lie).empty(), false);
  const auto reason = [&](const xfer::TransferParams& params) {
    TestCall call;
    call.Start(decode.engine(), Ask(40, 1, 3, WriteTransfer(params)));
    EXPECT_TRUE(Run(call) && call.Ok());
    return call.first.fallback_reason;
  };
  auto other = lie;
  other.lease ^= 1;
  EXPECT_EQ(reason(other), "stale");
  other = lie;
  other.num_tokens = 39;
  EXPECT_EQ(reason(other), "mismatch");
  sim.RunFor(seconds(1));
  TestCall again;
  again.Start(prefill.engine(), Ask(90, 2, 3, std::string(kPrefillParams)));
  ASSERT_TRUE(Run(again));
  other = ParseTransfer(again.params)->remote.value();
  other.port = 1;
  TestCall unreachable;
  unreachable.Start(decode.engine(), Ask(90, 2, 3, WriteTransfer(other)));
  ASSERT_TRUE(Run(unreachable) && unreachable.Ok());
  EXPECT_EQ(unreachable.first.fallback_reason, "unreachable");
  prefill.Stop(sim);
  decode.Stop(sim);
}

TEST_F(EngineSim, OverloadIsRefusedAndShutdownEndsAll) {
  auto options = MockWorker(Role::kAggregated);
  options.max_num_seqs = 2;
  options.max_waiting = 3;
  options.kv_transfer.reset();
  Host worker(sim, "w", options);
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(std::make_unique<TestCall>());
    calls.back()->Start(worker.engine(), Ask(10, i, 3000));
    sim.RunFor(milliseconds(2));
  }
  EXPECT_EQ(calls[5]->EndCode(), Code::kOverloaded);
  EXPECT_FALSE(calls[4]->Done());
  worker.Stop(sim);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(calls[static_cast<size_t>(i)]->EndCode(), Code::kUnavailable);
  TestCall after;
  after.Start(worker.engine(), Ask(10, 9, 3));
  EXPECT_EQ(after.EndCode(), Code::kUnavailable);
}

TEST_F(EngineSim, FortyBlocksUnderSixtyFourDecodeLegsAllEnd) {
  Host prefill(sim, "p", MockWorker(Role::kPrefill));
  auto options = MockWorker(Role::kDecode);
  options.num_gpu_blocks_override = 40;
  Host decode(sim, "d", options);
  std::vector<std::unique_ptr<TestCall>> first, second;
  for (int i = 0; i < 64; ++i) {
    first.push_back(std::make_unique<TestCall>());
    second.push_back(std::make_unique<TestCall>());
  }
  for (int i = 0; i < 64; ++i) {
    auto& call = *first[static_cast<size_t>(i)];
    call.Start(prefill.engine(), Ask(30 + i, i, 60, std::string(kPrefillParams)));
  }
  size_t handed = 0;
  EXPECT_TRUE(sim.RunUntil(
      [&] {
        for (; handed < 64 && first[handed]->Done(); ++handed) {
          EXPECT_TRUE(first[handed]->Ok());
          second[handed]->Start(decode.engine(),
                                Ask(30 + static_cast<int64_t>(handed), static_cast<int32_t>(handed),
                                    60, first[handed]->params));
        }
        return handed == 64 &&
               std::all_of(second.begin(), second.end(), [](auto& c) { return c->Done(); });
      },
      seconds(600)));
  for (int i = 0; i < 64; ++i) {
    const auto& call = *second[static_cast<size_t>(i)];
    ASSERT_TRUE(call.Ok()) << i;
    EXPECT_EQ(call.text[0].size(), 60U);
  }
  EXPECT_EQ(second[40]->text[0], Alone(Ask(70, 40, 60)));
  EXPECT_GT(decode.engine().Stats().preemptions, 0U);
  sim.RunFor(seconds(1));
  ExpectQuiet(decode.engine());
  ExpectQuiet(prefill.engine());
  prefill.Stop(sim);
  decode.Stop(sim);
}

}  // namespace
}  // namespace tandem::engine

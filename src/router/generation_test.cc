// The legs of a request over the simulated network, with scripted workers.
#include "router/generation.h"

#include <gtest/gtest.h>

#include "router/fake_worker.h"
#include "router/router.h"

namespace tandem::router {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Outcome {
  std::vector<wire::TokenId> tokens;
  std::optional<Error> error;
  bool done = false;
  GenerationFacts facts;
};

class GenerationTest : public testing::Test {
 protected:
  FakeWorker& AddWorker(uint64_t id, std::string role, FakeWorker::Script script = {}) {
    if (script.tokens.empty()) script.tokens = {10, 11, 12};
    wire::Instance instance;
    instance.id = id;
    instance.started_unix_ms = 1;
    instance.card.name = "m";
    instance.card.role = std::move(role);
    instance.card.max_model_len = 1000;
    instance.card.kv_connector = "NixlConnector";
    workers_.push_back(std::make_unique<FakeWorker>(sim_.AddHost(fmt::format("w{}", id)), hub_,
                                                    std::move(instance), std::move(script)));
    return *workers_.back();
  }

  void MakeRouter(RouterOptions options = {}) {
    router_ = *Router::Create(frontend_, *discovery_, metrics_, std::move(options));
    sim_.RunFor(milliseconds(10));
  }

  rt::Task<void> Read(Outcome* outcome, rt::CancelToken cancel, MonoTime deadline) {
    wire::GenerateRequest request;
    request.trace_id = "r";
    request.model = "m";
    request.prompt = {1, 2, 3, 4};
    request.max_tokens = 16;
    const auto generation = router_->Generate(std::move(request), deadline, cancel);
    while (true) {
      auto item = co_await generation->Next();
      outcome->facts = generation->facts();
      if (!item) outcome->error = item.error();
      if (!item || !*item) break;
      outcome->tokens.insert(outcome->tokens.end(), (*item)->tokens.begin(), (*item)->tokens.end());
    }
    outcome->done = true;
  }

  Outcome Run(rt::CancelToken cancel = {}, MonoTime deadline = kNever) {
    Outcome outcome;
    frontend_.Spawn(Read(&outcome, std::move(cancel), deadline));
    sim_.RunUntil([&] { return outcome.done; }, seconds(60));
    sim_.RunFor(seconds(1));
    EXPECT_TRUE(outcome.done);
    return outcome;
  }

  void ExpectQuiet() {
    for (const auto& worker : workers_) {
      EXPECT_EQ(worker->running, 0) << worker->id();
      EXPECT_TRUE(worker->leases.empty() || !worker->host().Alive()) << worker->id();
    }
  }

  std::string Rendered() { return metrics_.Render(); }

  rt::SimRuntime sim_{7};
  cluster::MemHub hub_{sim_};
  rt::SimHost& frontend_ = sim_.AddHost("frontend");
  std::unique_ptr<cluster::Discovery> discovery_ = hub_.Open(frontend_);
  Metrics metrics_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::unique_ptr<Router> router_;
};

const std::vector<wire::TokenId> kAnswer = {10, 11, 12, 257};

TEST_F(GenerationTest, AggregatedIsOneLeg) {
  FakeWorker& worker = AddWorker(1, "agg");
  MakeRouter();
  const Outcome outcome = Run();
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.tokens, kAnswer);
  ASSERT_EQ(worker.requests.size(), 1u);
  EXPECT_TRUE(worker.requests[0].request_id.starts_with("r-"));
  EXPECT_EQ(worker.requests[0].kv_transfer_params, "");
  EXPECT_EQ(outcome.facts.serving_worker, 1u);
  EXPECT_EQ(outcome.facts.prefill_worker, 0u);
}

TEST_F(GenerationTest, DisaggregatedCopiesTheParametersVerbatim) {
  FakeWorker& prefill = AddWorker(1, "prefill");
  FakeWorker& decode = AddWorker(2, "decode");
  MakeRouter();
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(prefill.requests[0].max_tokens, 1);
  EXPECT_EQ(prefill.requests[0].kv_transfer_params.find("{\"do_remote_decode\":true,"), 0u);
  EXPECT_EQ(decode.requests[0].kv_transfer_params, R"({"do_remote_prefill":true,"worker":1})");
  EXPECT_EQ(decode.requests[0].request_id, prefill.requests[0].request_id);
  EXPECT_TRUE(prefill.released.empty());
  EXPECT_EQ(outcome.facts.prefill_worker, 1u);
  EXPECT_NE(Rendered().find("tandem_frontend_kv_pulled_bytes_total{model=\"m\",transport=\"sim\"} "
                            "1000"),
            std::string::npos);
}

TEST_F(GenerationTest, PrefillIsRetriedOnceElsewhere) {
  FakeWorker& bad = AddWorker(1, "prefill");
  bad.script().error = Error{Code::kInternal, "broken", {}};
  FakeWorker& good = AddWorker(2, "prefill");
  AddWorker(3, "decode");
  MakeRouter();
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(bad.requests.size(), 1u);
  EXPECT_EQ(good.requests.size(), 1u);
  EXPECT_EQ(outcome.facts.retries, 1);
  EXPECT_EQ(outcome.facts.fallback, "");
}

TEST_F(GenerationTest, AfterTwoFailedPrefillsDecodeComputesThePrompt) {
  for (const uint64_t id : {1, 2, 3})
    AddWorker(id, "prefill").script().error = Error{Code::kInternal, "broken", {}};
  FakeWorker& decode = AddWorker(4, "decode");
  MakeRouter();
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(decode.requests[0].kv_transfer_params, "");
  EXPECT_EQ(outcome.facts.fallback, "prefill_internal");
  EXPECT_EQ(
      workers_[0]->requests.size() + workers_[1]->requests.size() + workers_[2]->requests.size(),
      2u);
  EXPECT_NE(
      Rendered().find("tandem_frontend_fallbacks_total{model=\"m\",reason=\"prefill_internal\"} 1"),
      std::string::npos);
  ExpectQuiet();
}

TEST_F(GenerationTest, TheRequestsOwnErrorsAreNotRetried) {
  AddWorker(1, "prefill").script().error = Error{Code::kInvalidArgument, "bad bias", "logit_bias"};
  FakeWorker& other = AddWorker(2, "prefill");
  FakeWorker& decode = AddWorker(3, "decode");
  MakeRouter();
  const Outcome outcome = Run();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kInvalidArgument);
  EXPECT_EQ(outcome.error->param, "logit_bias");
  EXPECT_TRUE(other.requests.empty());
  EXPECT_TRUE(decode.requests.empty());
}

TEST_F(GenerationTest, DecodeAloneServesUnlessForbidden) {
  AddWorker(1, "decode");
  MakeRouter();
  EXPECT_EQ(Run().facts.fallback, "no_prefill_worker");
  router_.reset();
  MakeRouter({.enforce_disagg = true});
  const Outcome outcome = Run();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kUnavailable);
}

TEST_F(GenerationTest, EnforceRefusesAfterFailedPrefills) {
  AddWorker(1, "prefill").script().error = Error{Code::kInternal, "broken", {}};
  FakeWorker& decode = AddWorker(2, "decode");
  MakeRouter({.enforce_disagg = true});
  const Outcome outcome = Run();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kUnavailable);
  EXPECT_TRUE(decode.requests.empty());
  ExpectQuiet();
}

TEST_F(GenerationTest, AWorkerLostBeforeItsFirstTokenIsReplacedOnce) {
  FakeWorker::Script slow;
  slow.first_delay = seconds(5);
  FakeWorker& first = AddWorker(1, "agg", slow);
  FakeWorker& second = AddWorker(2, "agg");
  MakeRouter();
  Outcome outcome;
  frontend_.Spawn(Read(&outcome, {}, kNever));
  sim_.RunUntil([&] { return first.running > 0; });
  first.host().Kill();
  sim_.RunUntil([&] { return outcome.done; }, seconds(10));
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(second.requests.size(), 1u);
  EXPECT_EQ(outcome.facts.retries, 1);
}

TEST_F(GenerationTest, AWorkerLostAfterATokenEndsTheRequest) {
  FakeWorker::Script slow;
  slow.token_delay = seconds(5);
  FakeWorker& first = AddWorker(1, "agg", slow);
  FakeWorker& second = AddWorker(2, "agg");
  MakeRouter();
  Outcome outcome;
  frontend_.Spawn(Read(&outcome, {}, kNever));
  sim_.RunUntil([&] { return !outcome.tokens.empty(); });
  first.host().Kill();
  sim_.RunUntil([&] { return outcome.done; }, seconds(2));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kConnectionLost);
  EXPECT_NE(outcome.error->message.find("after 1 tokens"), std::string::npos);
  EXPECT_TRUE(second.requests.empty());
}

TEST_F(GenerationTest, WithoutAnotherWorkerALossIsUnavailable) {
  FakeWorker::Script slow;
  slow.first_delay = seconds(5);
  FakeWorker& first = AddWorker(1, "agg", slow);
  MakeRouter();
  Outcome outcome;
  frontend_.Spawn(Read(&outcome, {}, kNever));
  sim_.RunUntil([&] { return first.running > 0; });
  first.host().Kill();
  sim_.RunUntil([&] { return outcome.done; }, seconds(2));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kUnavailable);
}

TEST_F(GenerationTest, ADeadDecodeWorkersRequestGoesToAnotherWithTheSameLease) {
  FakeWorker& prefill = AddWorker(1, "prefill");
  FakeWorker::Script slow;
  slow.first_delay = seconds(5);
  FakeWorker& dying = AddWorker(2, "decode", slow);
  FakeWorker& other = AddWorker(3, "decode");
  MakeRouter();
  Outcome outcome;
  frontend_.Spawn(Read(&outcome, {}, kNever));
  sim_.RunUntil([&] { return dying.running > 0; });
  dying.host().Kill();
  sim_.RunUntil([&] { return outcome.done; }, seconds(10));
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(other.requests[0].kv_transfer_params, R"({"do_remote_prefill":true,"worker":1})");
  EXPECT_EQ(prefill.requests.size(), 1u);
  EXPECT_TRUE(prefill.released.empty());
}

// Cancels at every point of the request's way; whatever was granted has to be given back.
TEST_F(GenerationTest, ACancelledRequestLeavesNothingBehind) {
  FakeWorker& prefill = AddWorker(1, "prefill");
  FakeWorker::Script slow;
  slow.first_delay = milliseconds(6);
  AddWorker(2, "decode", slow);
  MakeRouter();
  EXPECT_FALSE(Run().error);
  // The fake worker keeps no hand-over: a finished request's lease stays.
  prefill.leases.clear();
  int unfinished = 0;
  for (int tenths = 0; tenths < 150; ++tenths) {
    rt::CancelSource source;
    const auto timer =
        frontend_.RunAt(frontend_.Now() + std::chrono::microseconds(100 * tenths),
                        [&] { source.Cancel({Code::kCancelled, "the client left", {}}); });
    const Outcome outcome = Run(source.Token());
    if (outcome.tokens.empty()) {
      ++unfinished;
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->code, Code::kCancelled);
      ExpectQuiet();
    }
    prefill.leases.clear();
    EXPECT_EQ(workers_[1]->running, 0);
  }
  EXPECT_GT(unfinished, 100);
}

TEST_F(GenerationTest, TheDeadlineEndsEveryLeg) {
  FakeWorker::Script slow;
  slow.first_delay = seconds(100);
  AddWorker(1, "prefill", slow);
  AddWorker(2, "decode");
  MakeRouter();
  const MonoTime begin = sim_.Now();
  const Outcome outcome = Run({}, begin + seconds(2));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kDeadlineExceeded);
  EXPECT_LT(sim_.Now() - begin, seconds(4));
  ExpectQuiet();
}

TEST_F(GenerationTest, AFailedPullIsCountedAndItsLeaseReleased) {
  FakeWorker& prefill = AddWorker(1, "prefill");
  FakeWorker::Script script;
  script.fallback_reason = "Stale lease!";
  AddWorker(2, "decode", script);
  MakeRouter();
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.tokens, kAnswer);
  EXPECT_EQ(prefill.released.size(), 1u);
  EXPECT_NE(Rendered().find("reason=\"pull__tale_lease_\"} 1"), std::string::npos);
}

TEST_F(GenerationTest, OverloadIsTriedElsewhereAndThenTold) {
  AddWorker(1, "agg").script().error = Error{Code::kOverloaded, "full", {}};
  FakeWorker& other = AddWorker(2, "agg");
  MakeRouter();
  EXPECT_FALSE(Run().error);
  other.script().error = Error{Code::kOverloaded, "full", {}};
  const Outcome outcome = Run();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::kOverloaded);
}

TEST_F(GenerationTest, ArtifactsAreCheckedAndFoundOnAnyWorker) {
  FakeWorker& liar = AddWorker(1, "agg");
  FakeWorker& good = AddWorker(2, "agg");
  const std::string bytes(10000, 'x');
  const std::string digest = Hex(Sha256(bytes));
  liar.artifacts[digest] = "something else";
  good.artifacts[digest] = bytes;
  MakeRouter();
  Result<std::string> got = Err(Code::kInternal, "");
  const auto fetch = [&](size_t limit) -> rt::Task<void> {
    got = co_await router_->FetchArtifact("m", digest, limit);
  };
  EXPECT_TRUE(sim_.RunTask(fetch(20000)));
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(*got, bytes);
  EXPECT_TRUE(sim_.RunTask(fetch(9999)));
  EXPECT_FALSE(got.has_value());
}

}  // namespace
}  // namespace tandem::router

// A whole worker under simulated time: request plane, discovery, system server.
#include "engine/worker_service.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "cluster/mem_discovery.h"
#include "engine/engine_test_util.h"
#include "engine/generate_call.h"
#include "net/http_client.h"
#include "net/rpc_client.h"
#include "rt/sim_runtime.h"
#include "text/tokenizer_spec.h"

namespace tandem::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkerService : public ::testing::Test {
 protected:
  WorkerService()
      : hub_(sim_),
        worker_host_(sim_.AddHost("w")),
        discovery_(hub_.Open(worker_host_)),
        watch_discovery_(hub_.Open(sim_)) {
    watch_ = watch_discovery_->WatchInstances(
        "dynamo", [this](const std::vector<wire::Instance>& live) { live_ = live; });
  }

  static WorkerOptions Options(Role role) {
    WorkerOptions options;
    options.engine = EngineKind::kMock;
    options.role = role;
    options.mock.vocab = 500;
    options.mock.block_bytes = 128;
    options.num_gpu_blocks_override = 300;
    options.kv_transfer = TestTransfer();
    options.transports = {"tcp"};
    options.rpc_host = "w";
    options.system_host = "w";
    options.side_channel_host = "w";
    options.system_port = 0;
    options.served_name = "m";
    return options;
  }

  void Start(WorkerOptions options) {
    WorkerEnvironment environment{
        .runtime = worker_host_,
        .discovery = *discovery_,
        .metrics = metrics_,
        .on_load_progress = {},
        .on_ready = [this](const wire::Instance& instance) { instance_ = instance; }};
    worker_host_.Spawn(RunTask(environment, std::move(options), stop_.Token(), &end_));
    ASSERT_TRUE(sim_.RunUntil([this] { return instance_ || end_; }, seconds(5)));
    if (!instance_) return;
    ASSERT_TRUE(sim_.RunUntil([this] { return live_.size() == 1; }, seconds(5)));
    channel_ = std::make_unique<net::RpcChannel>(sim_, *rt::Address::Parse(instance_->address));
  }
  static rt::Task<void> RunTask(WorkerEnvironment environment, WorkerOptions options,
                                rt::CancelToken stop, std::optional<Status>* end) {
    *end = co_await RunWorker(environment, std::move(options), stop);
  }

  struct Answer {
    std::vector<wire::GenerateItem> items;
    std::string bytes;
    std::optional<Status> end;
  };
  static rt::Task<void> Read(net::RpcStream* stream, bool raw, Answer* answer) {
    while (true) {
      auto next = co_await stream->Next();
      if (!next) {
        answer->end = std::unexpected(next.error());
        co_return;
      }
      if (!next->has_value()) break;
      if (raw) {
        answer->bytes.append(reinterpret_cast<const char*>((*next)->data()), (*next)->size());
        continue;
      }
      auto item = wire::DecodeGenerateItem(**next);
      EXPECT_TRUE(item.has_value());
      answer->items.push_back(*std::move(item));
    }
    answer->end = Status();
  }
  Answer Call(std::string_view method, wire::Bytes payload, bool raw = false) {
    Answer answer;
    const auto stream = channel_->Start(method, std::move(payload));
    sim_.RunTask(Read(stream.get(), raw, &answer), seconds(100));
    EXPECT_TRUE(answer.end.has_value());
    return answer;
  }
  std::pair<int, std::string> Get(const std::string& path) {
    std::optional<Result<net::HttpResponse>> response;
    net::HttpClient client(sim_, *rt::Address::Parse(instance_->system_address));
    const auto send = [](net::HttpClient* from, std::string target,
                         std::optional<Result<net::HttpResponse>>* to) -> rt::Task<void> {
      net::HttpClientRequest request;
      request.target = std::move(target);
      *to = co_await from->Send(std::move(request));
    };
    sim_.RunTask(send(&client, path, &response), seconds(10));
    EXPECT_TRUE(response && *response);
    return {(*response)->status, (*response)->body};
  }
  wire::GenerateRequest Ask(int32_t max_tokens) {
    wire::GenerateRequest request;
    request.request_id = "a";
    request.model = "m";
    for (wire::TokenId id = 0; id < 40; ++id) request.prompt.push_back(id);
    request.max_tokens = max_tokens;
    return request;
  }

  rt::SimRuntime sim_{3};
  cluster::MemHub hub_;
  rt::SimHost& worker_host_;
  std::unique_ptr<cluster::Discovery> discovery_;
  std::unique_ptr<cluster::Discovery> watch_discovery_;
  std::unique_ptr<cluster::Watch> watch_;
  std::vector<wire::Instance> live_;
  Metrics metrics_;
  rt::CancelSource stop_;
  std::optional<wire::Instance> instance_;
  std::optional<Status> end_;
  std::unique_ptr<net::RpcChannel> channel_;
};

TEST_F(WorkerService, RegistersServesAndLeaves) {
  Start(Options(Role::kAggregated));
  ASSERT_TRUE(instance_);
  EXPECT_EQ(instance_->component, "backend");
  EXPECT_EQ(instance_->card.name, "m");
  EXPECT_EQ(instance_->card.role, "agg");
  EXPECT_EQ(instance_->card.max_model_len, 4800);
  EXPECT_EQ(instance_->card.kv_connector, "NixlConnector");

  const Answer answer = Call(wire::kMethodGenerate, wire::Encode(Ask(10)));
  ASSERT_TRUE(answer.end->has_value());
  size_t tokens = 0;
  for (const auto& item : answer.items) tokens += item.tokens.size();
  EXPECT_EQ(tokens, 10U);
  EXPECT_EQ(answer.items.front().computed_prompt_tokens, 40);
  EXPECT_EQ(answer.items.back().finish, wire::FinishReason::kLength);

  EXPECT_EQ(Get("/health").first, 200);
  EXPECT_EQ(Get("/live").first, 200);
  EXPECT_EQ(Get("/nothing").first, 404);
  const std::string metrics = Get("/metrics").second;
  for (const char* name :
       {"vllm:num_requests_running{",
        "vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} 10",
        "dynamo_component_requests_total", "vllm:time_to_first_token_seconds_count",
        "tandem_engine_step_seconds_count", "vllm:kv_cache_usage_perc"})
    EXPECT_NE(metrics.find(name), std::string::npos) << name << "\n" << metrics;
  const std::string state = Get("/debug/state").second;
  EXPECT_NE(state.find("\"running\":0"), std::string::npos);
  EXPECT_NE(state.find("\"rpc_streams\":0"), std::string::npos);

  stop_.Cancel();
  ASSERT_TRUE(sim_.RunUntil([this] { return end_.has_value(); }, seconds(20)));
  EXPECT_TRUE(end_->has_value());
  EXPECT_TRUE(sim_.RunUntil([this] { return live_.empty(); }, seconds(20)));
}

TEST_F(WorkerService, ServesArtifactsByDigest) {
  Start(Options(Role::kAggregated));
  ASSERT_TRUE(instance_);
  const auto& card = instance_->card;
  const Answer spec =
      Call(wire::kMethodArtifact, wire::Encode(wire::ArtifactRequest{card.tokenizer_digest}), true);
  ASSERT_TRUE(spec.end->has_value());
  EXPECT_EQ(Hex(Sha256(spec.bytes)), card.tokenizer_digest);
  EXPECT_EQ(text::ParseTokenizerSpec(spec.bytes)->tokens.size(), 500U);
  const Answer chat =
      Call(wire::kMethodArtifact, wire::Encode(wire::ArtifactRequest{card.template_digest}), true);
  EXPECT_EQ(Hex(Sha256(chat.bytes)), card.template_digest);
  const Answer none =
      Call(wire::kMethodArtifact, wire::Encode(wire::ArtifactRequest{"beef"}), true);
  EXPECT_EQ(none.end->error().code, Code::kNotFound);
}

TEST_F(WorkerService, BadBytesAndBadRequestsAreErrors) {
  Start(Options(Role::kPrefill));
  ASSERT_TRUE(instance_);
  EXPECT_EQ(instance_->component, "prefill");
  const Answer junk = Call(wire::kMethodGenerate, {std::byte{0xC1}, std::byte{7}});
  EXPECT_FALSE(junk.end->has_value());
  const Answer plain = Call(wire::kMethodGenerate, wire::Encode(Ask(5)));
  EXPECT_EQ(plain.end->error().code, Code::kInvalidArgument);
  EXPECT_EQ(plain.end->error().param, "kv_transfer_params");
}

TEST_F(WorkerService, AClientThatLeavesFreesItsLeaseByRelease) {
  Start(Options(Role::kPrefill));
  ASSERT_TRUE(instance_);
  auto request = Ask(1);
  request.kv_transfer_params = std::string(kPrefillParams);
  const Answer first = Call(wire::kMethodGenerate, wire::Encode(request));
  ASSERT_TRUE(first.end->has_value());
  EXPECT_FALSE(first.items.back().kv_transfer_params.empty());
  EXPECT_NE(Get("/debug/state").second.find("\"leases\":1"), std::string::npos);
  const Answer released = Call(wire::kMethodRelease, wire::Encode(wire::ReleaseRequest{"a"}));
  EXPECT_TRUE(released.end->has_value());
  sim_.RunFor(milliseconds(10));
  EXPECT_NE(Get("/debug/state").second.find("\"leases\":0"), std::string::npos);
}

TEST_F(WorkerService, ACancelledStreamFreesTheEngine) {
  Start(Options(Role::kAggregated));
  ASSERT_TRUE(instance_);
  {
    const auto stream = channel_->Start(wire::kMethodGenerate, wire::Encode(Ask(4000)));
    sim_.RunFor(milliseconds(100));
    EXPECT_NE(Get("/debug/state").second.find("\"running\":1"), std::string::npos);
  }
  sim_.RunFor(milliseconds(100));
  const std::string state = Get("/debug/state").second;
  EXPECT_NE(state.find("\"running\":0"), std::string::npos);
  EXPECT_NE(state.find("\"rpc_streams\":0"), std::string::npos);
}

TEST_F(WorkerService, WrongOptionsAreRefusedBeforeAnythingStarts) {
  auto options = Options(Role::kPrefill);
  options.kv_transfer.reset();
  Start(options);
  ASSERT_TRUE(end_);
  EXPECT_EQ((*end_).error().code, Code::kInvalidArgument);
}

TEST(GenerateCall, ItemsThatWaitAreJoinedByChoice) {
  std::vector<wire::GenerateItem> queue;
  const auto item = [](int32_t choice, wire::TokenId token) {
    wire::GenerateItem made;
    made.choice = choice;
    made.tokens = {token};
    return made;
  };
  auto first = item(0, 1);
  first.cached_tokens = 16;
  Enqueue(queue, first);
  Enqueue(queue, item(1, 7));
  Enqueue(queue, item(0, 2));
  auto last = item(0, 3);
  last.finish = wire::FinishReason::kStop;
  last.stop_token = 3;
  Enqueue(queue, last);
  ASSERT_EQ(queue.size(), 2U);
  EXPECT_EQ(queue[0].tokens, (std::vector<wire::TokenId>{1, 2, 3}));
  EXPECT_EQ(queue[0].cached_tokens, 16);
  EXPECT_EQ(queue[0].finish, wire::FinishReason::kStop);
  EXPECT_EQ(queue[0].stop_token, 3);
  EXPECT_EQ(queue[1].tokens, (std::vector<wire::TokenId>{7}));
}

}  // namespace
}  // namespace tandem::engine

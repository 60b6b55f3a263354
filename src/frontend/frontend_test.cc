// The frontend over HTTP on the simulated network, with scripted workers.
#include "frontend/frontend.h"

#include <algorithm>
#include <array>

#include "frontend/test_frontend.h"

namespace tandem::frontend {
namespace {

TEST_F(FrontendTest, ChatRendersTokenisesAndAnswers) {
  FakeWorker& worker = AddWorker(1);
  Start();
  const Reply reply = Post(kChat, ChatBody(R"("seed":5)"),
                           {{"content-type", "application/json"}, {"x-request-id", "abc"}});
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.Find("x-request-id"), "abc");
  const Json json = reply.json();
  EXPECT_EQ(json.Find("id")->AsString(), "chatcmpl-abc");
  EXPECT_EQ(Choice0(json).Find("message")->Find("content")->AsString(), "hello");
  EXPECT_EQ(Choice0(json).Find("finish_reason")->AsString(), "stop");
  EXPECT_TRUE(Choice0(json).Find("stop_reason")->IsNull());
  EXPECT_EQ(json.Find("usage")->Find("completion_tokens")->AsInt(), 6);
  EXPECT_EQ(json.Find("usage")->Find("prompt_tokens_details")->Find("cached_tokens")->AsInt(), 2);
  ASSERT_EQ(worker.requests.size(), 1u);
  const wire::GenerateRequest& request = worker.requests[0];
  std::vector<TokenId> expected = {kStartToken};
  for (const TokenId id : IdsOf("user\nhi")) expected.push_back(id);
  expected.push_back(kEndToken);
  expected.push_back('\n');
  expected.push_back(kStartToken);
  for (const TokenId id : IdsOf("assistant\n")) expected.push_back(id);
  EXPECT_EQ(request.prompt, expected);
  EXPECT_EQ(request.trace_id, "abc");
  EXPECT_EQ(request.sampling.seed, 5);
  EXPECT_EQ(request.max_tokens, 100 - static_cast<int32_t>(expected.size()));
}

TEST_F(FrontendTest, StreamsChat) {
  AddWorker(1, "agg", "hé!");
  Start();
  const Reply reply =
      Post(kChat, ChatBody(R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.Find("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<std::string> events = reply.events();
  ASSERT_EQ(events.size(), 7u) << reply.body;
  EXPECT_NE(events[0].find(R"("delta":{"role":"assistant","content":""})"), std::string::npos);
  EXPECT_NE(events[1].find(R"("delta":{"content":"h"})"), std::string::npos);
  EXPECT_NE(events[2].find(R"("delta":{"content":"é"})"), std::string::npos);
  EXPECT_NE(events[4].find(R"("finish_reason":"stop")"), std::string::npos);
  EXPECT_NE(events[5].find(R"("choices":[],"usage":{"prompt_tokens":)"), std::string::npos);
  EXPECT_EQ(events[6], "[DONE]");
}

TEST_F(FrontendTest, StopStringEndsTheRequestUpstream) {
  FakeWorker& worker = AddWorker(1, "agg", std::string(80, 'a') + "stop" + std::string(900, 'b'));
  worker.script().tokens = IdsOf("one two three four five six");
  Start();
  const Reply reply = Post(kCompletion, CompletionBody(R"("stop":["two"],"max_tokens":50)"));
  const Json json = reply.json();
  EXPECT_EQ(Choice0(json).Find("text")->AsString(), "one ");
  EXPECT_EQ(Choice0(json).Find("stop_reason")->AsString(), "two");
  EXPECT_EQ(json.Find("usage")->Find("completion_tokens")->AsInt(), 7);
  sim_.RunFor(milliseconds(50));
  EXPECT_EQ(worker.running, 0);
  EXPECT_EQ(worker.cancelled, 1);
}

TEST_F(FrontendTest, CompletionsOfManyPromptsAndChoices) {
  FakeWorker& worker = AddWorker(1, "agg", "xyz");
  Start();
  const Reply reply =
      Post(kCompletion,
           R"({"model":"m","prompt":["a","bb"],"n":2,"max_tokens":2,"logprobs":1,"echo":false})");
  const Json json = reply.json();
  ASSERT_EQ(json.Find("choices")->AsArray().size(), 4u) << reply.body;
  for (int i = 0; i < 4; ++i) {
    const Json& choice = json.Find("choices")->AsArray()[static_cast<size_t>(i)];
    EXPECT_EQ(choice.Find("index")->AsInt(), i);
    EXPECT_EQ(choice.Find("text")->AsString(), "xy");
    EXPECT_EQ(choice.Find("finish_reason")->AsString(), "length");
  }
  EXPECT_EQ(json.Find("usage")->Find("prompt_tokens")->AsInt(), 3);
  EXPECT_EQ(json.Find("usage")->Find("completion_tokens")->AsInt(), 8);
  EXPECT_EQ(worker.requests.size(), 2u);
  EXPECT_NE(worker.requests[0].request_id, worker.requests[1].request_id);
  sim_.RunFor(milliseconds(50));
  EXPECT_EQ(worker.running, 0);
}

TEST_F(FrontendTest, EchoAndTokenIds) {
  AddWorker(1, "agg", "xyz");
  Start();
  const Reply text = Post(kCompletion, CompletionBody(R"("echo":true,"max_tokens":2)"));
  EXPECT_EQ(Choice0(text.json()).Find("text")->AsString(), "hixy");
  const Reply ids =
      Post(kCompletion, R"({"prompt":[104,105],"echo":true,"max_tokens":1,"stream":true,)"
                        R"("return_token_ids":true})");
  EXPECT_NE(ids.events()[0].find(R"("text":"hix")"), std::string::npos) << ids.body;
  EXPECT_NE(ids.events()[0].find(R"("token_ids":[120],"prompt_token_ids":[104,105])"),
            std::string::npos)
      << ids.body;
}

// The input is let go once the workers have it; what is echoed must have been taken before.
TEST_F(FrontendTest, EchoesSeveralLongPrompts) {
  AddWorker(1, "agg", "xyz");
  Start();
  const std::string first(60, 'a');
  const std::string second(70, 'b');
  const Json json = Post(kCompletion, fmt::format(R"({{"prompt":["{}","{}"],"echo":true,)"
                                                  R"("max_tokens":1}})",
                                                  first, second))
                        .json();
  const auto& choices = json.Find("choices")->AsArray();
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].Find("text")->AsString(), first + "x");
  EXPECT_EQ(choices[1].Find("text")->AsString(), second + "x");
}

TEST_F(FrontendTest, ErrorsBeforeTheAnswer) {
  AddWorker(1);
  FrontendOptions options;
  options.body_limit = 4096;
  Start(options);
  const auto expect = [&](const Reply& reply, int status, std::string_view param) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.param(), param) << reply.body;
    EXPECT_EQ(reply.json().Find("error")->Find("code")->AsInt(), status);
  };
  expect(Post(kChat, ChatBody(R"("top_p":7)")), 400, "top_p");
  expect(Post(kChat, "{\"model\":\"m\","), 400, "");
  expect(Post(kChat, R"({"model":"x","messages":[{"role":"user"}]})"), 404, "model");
  expect(Post(kChat, ChatBody(R"("n":2,"temperature":0)")), 400, "n");
  expect(Post(kChat, ChatBody(R"("max_tokens":101)")), 400, "max_tokens");
  expect(Post(kChat, ChatBody(R"("stop_token_ids":[9999])")), 400, "stop_token_ids");
  expect(Post(kCompletion, R"({"model":"m","prompt":[1,99999]})"), 400, "prompt");
  expect(
      Post(kCompletion, fmt::format(R"({{"prompt":"{}","stream":true}})", std::string(100, 'x'))),
      400, "input_tokens");
  expect(Post(kCompletion, CompletionBody(), {{"content-type", "text/plain"}}), 400,
         "content-type");
  expect(Post(kCompletion, CompletionBody(), {{"x-request-timeout-ms", "0"}}), 400,
         "x-request-timeout-ms");
  expect(Post(kCompletion, CompletionBody(), {{"x-request-id", std::string(300, 'x')}}), 400,
         "x-request-id");
  EXPECT_EQ(Post(kCompletion, std::string(5000, ' ')).status, 413);
  EXPECT_EQ(Get("/v1/nothing").status, 404);
  const Reply unknown = Get("/v1/models/none/such");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("the model 'none/such' is not served here"), std::string::npos);
  for (const Reply& reply : {Get(std::string(kChat)), Get("/health", "POST")}) {
    EXPECT_EQ(reply.status, 405);
    EXPECT_NE(reply.body.find("invalid_request_error"), std::string::npos) << reply.body;
  }
  EXPECT_NE(
      Post(kCompletion, CompletionBody(), {{"content-type", "application/x-www-form-urlencoded"}})
          .body.find("add -H 'content-type: application/json'"),
      std::string::npos);
  EXPECT_NE(Post(kCompletion, fmt::format(R"({{"prompt":"{}"}})", std::string(100, 'x')))
                .body.find("maximum context length is 100 tokens"),
            std::string::npos);
  EXPECT_TRUE(workers_[0]->requests.empty());
}

TEST_F(FrontendTest, WithoutWorkersItSaysSo) {
  Start();
  const Reply reply = Post(kChat, ChatBody());
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("no worker is registered"), std::string::npos);
  EXPECT_EQ(reply.headers.Find("retry-after"), "1");
  EXPECT_EQ(Get("/v1/models").body, R"({"object":"list","data":[]})");
  FakeWorker& worker = AddWorker(1);
  sim_.RunFor(milliseconds(500));
  EXPECT_NE(Get("/v1/models").body.find(R"("id":"m")"), std::string::npos);
  EXPECT_EQ(Get("/v1/models/m").status, 200);
  EXPECT_EQ(Post(kChat, ChatBody()).status, 200);
  worker.Unregister();
  sim_.RunFor(milliseconds(500));
  EXPECT_EQ(Get("/v1/models").body, R"({"object":"list","data":[]})");
  EXPECT_EQ(Get("/v1/models/m").status, 404);
  EXPECT_EQ(Post(kChat, ChatBody()).status, 503);
}

TEST_F(FrontendTest, FullQueuesAnswerEarly) {
  FakeWorker& worker = AddWorker(1);
  worker.script().first_delay = seconds(5);
  FrontendOptions options;
  options.max_inflight = 2;
  Start(options);
  Reply first;
  Reply second;
  Begin(first, kChat, ChatBody());
  Begin(second, kChat, ChatBody());
  sim_.RunUntil([&] { return worker.running == 2; });
  const Reply third = Post(kChat, ChatBody());
  EXPECT_EQ(third.status, 529);
  EXPECT_EQ(third.headers.Find("retry-after"), "1");
  sim_.RunUntil([&] { return first.done && second.done; }, seconds(20));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(Post(kChat, ChatBody()).status, 200);
  worker.script().error = Error{Code::kOverloaded, "the worker's queue is full", {}};
  EXPECT_EQ(Post(kChat, ChatBody()).status, 529);
}

TEST_F(FrontendTest, DeadlinesBeforeAndWhileStreaming) {
  FakeWorker& worker = AddWorker(1, "agg", "abcdefgh");
  worker.script().token_delay = seconds(3);
  Start();
  const net::HttpHeaders soon = {{"x-request-timeout-ms", "2000"}};
  const Reply streamed = Post(kChat, ChatBody(R"("stream":true)"), soon);
  EXPECT_EQ(streamed.status, 200);
  const std::vector<std::string> events = streamed.events();
  ASSERT_EQ(events.size(), 4u) << streamed.body;
  EXPECT_NE(events[2].find("\"code\":504"), std::string::npos) << events[2];
  EXPECT_EQ(events[3], "[DONE]");
  worker.script().first_delay = seconds(10);
  const MonoTime begin = sim_.Now();
  const Reply unary = Post(kChat, ChatBody(), soon);
  EXPECT_EQ(unary.status, 504) << unary.body;
  EXPECT_LT(sim_.Now() - begin, milliseconds(2100));
  sim_.RunFor(seconds(1));
  EXPECT_EQ(worker.running, 0);
}

TEST_F(FrontendTest, AClientThatLeavesEndsTheRequest) {
  FakeWorker& worker = AddWorker(1, "agg", "abcdefgh");
  worker.script().token_delay = seconds(1);
  Start();
  for (const bool stream : {false, true}) {
    Reply reply;
    rt::CancelSource leave;
    Begin(reply, kChat, ChatBody(stream ? R"("stream":true)" : ""), {}, leave.Token());
    sim_.RunUntil([&] { return worker.running == 1; });
    sim_.RunFor(milliseconds(1500));
    leave.Cancel();
    sim_.RunFor(milliseconds(100));
    EXPECT_EQ(worker.running, 0) << stream;
  }
  const std::string metrics = Get("/metrics").body;
  EXPECT_NE(metrics.find("dynamo_frontend_disconnected_clients 2"), std::string::npos);
  EXPECT_NE(metrics.find("dynamo_frontend_inflight_requests{model=\"m\"} 0"), std::string::npos);
  EXPECT_NE(metrics.find("dynamo_frontend_queued_requests{model=\"m\"} 0"), std::string::npos);
}

TEST_F(FrontendTest, MetricsShowWhatTheWorkersReport) {
  AddWorker(1, "prefill");
  FakeWorker& decode = AddWorker(2, "decode");
  Start();
  const auto value = [this](std::string_view series) {
    const std::string all = "\n" + Get("/metrics").body;
    const std::string start = fmt::format("\n{} ", series);
    const size_t at = all.find(start);
    if (at == std::string::npos) return std::string("none");
    return all.substr(at + start.size(), all.find('\n', at + 1) - at - start.size());
  };
  // Before the first request, too.
  EXPECT_EQ(value(R"(dynamo_frontend_model_ready{model="m"})"), "1");
  EXPECT_EQ(value(R"(dynamo_frontend_model_context_length{model="m"})"), "100");
  EXPECT_EQ(value(R"(dynamo_frontend_queued_requests{model="m"})"), "0");
  EXPECT_EQ(value(R"(dynamo_frontend_time_to_first_token_seconds_count{model="m"})"), "0");
  EXPECT_EQ(Post(kChat, ChatBody()).status, 200);
  decode.script().fallback_reason = "stale";
  EXPECT_EQ(Post(kChat, ChatBody()).status, 200);
  EXPECT_EQ(value(R"(tandem_frontend_kv_pulled_bytes_total{model="m",transport="sim"})"), "1000");
  EXPECT_EQ(value(R"(tandem_frontend_kv_pull_seconds_sum{model="m",transport="sim"})"), "0.25");
  EXPECT_EQ(value(R"(tandem_frontend_kv_pull_seconds_count{model="m",transport="sim"})"), "1");
  EXPECT_EQ(value(R"(tandem_frontend_fallbacks_total{model="m",reason="pull_stale"})"), "1");
  EXPECT_EQ(value(R"(dynamo_frontend_cached_tokens_sum{model="m"})"), "4");
  EXPECT_EQ(value(R"(dynamo_frontend_output_tokens_total{model="m"})"), "12");
  EXPECT_EQ(value(R"(dynamo_frontend_time_to_first_token_seconds_count{model="m"})"), "2");
  EXPECT_EQ(value(R"(dynamo_frontend_inter_token_latency_seconds_count{model="m"})"), "10");
  workers_.clear();
  sim_.RunFor(seconds(1));
  EXPECT_EQ(value(R"(dynamo_frontend_model_ready{model="m"})"), "0");
}

TEST_F(FrontendTest, AWorkerLostInMidStreamIsAnErrorEvent) {
  FakeWorker& worker = AddWorker(1, "agg", "abcdefgh");
  worker.script().token_delay = seconds(1);
  AddWorker(2);
  Start();
  Reply reply;
  Begin(reply, kChat, ChatBody(R"("stream":true)"));
  sim_.RunUntil([&] { return reply.body.find("\"a\"") != std::string::npos; });
  worker.host().Kill();
  sim_.RunUntil([&] { return reply.done; }, seconds(10));
  EXPECT_FALSE(reply.broken);
  const std::vector<std::string> events = reply.events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_NE(events[events.size() - 2].find("\"error\":{"), std::string::npos);
}

TEST_F(FrontendTest, DisaggregatedFactsAreShownWhenAsked) {
  AddWorker(1, "prefill");
  AddWorker(2, "decode");
  Start();
  const Reply reply =
      Post(kChat, ChatBody(R"("nvext":{"extra_fields":["worker_id","timing","kv"]})"));
  const Json json = reply.json();
  const Json* nvext = json.Find("nvext");
  ASSERT_NE(nvext, nullptr) << reply.body;
  EXPECT_EQ(nvext->Find("worker_id")->Find("prefill_worker_id")->AsInt(), 1);
  EXPECT_EQ(nvext->Find("worker_id")->Find("decode_worker_id")->AsInt(), 2);
  EXPECT_EQ(nvext->Find("kv")->Find("pulled_bytes")->AsInt(), 1000);
  EXPECT_EQ(nvext->Find("kv")->Find("computed_prompt_tokens")->AsInt(), 1);
  EXPECT_EQ(nvext->Find("kv")->Find("transport")->AsString(), "sim");
  EXPECT_GT(nvext->Find("timing")->Find("ttft_ms")->AsDouble(), 0);
  EXPECT_EQ(Post(kChat, ChatBody()).json().Find("nvext"), nullptr);
}

TEST_F(FrontendTest, TokenizesBothWays) {
  AddWorker(1);
  Start();
  EXPECT_EQ(Post("/tokenize", R"({"model":"m","prompt":"hi","return_token_strs":true})").body,
            R"({"count":2,"max_model_len":100,"tokens":[104,105],"token_strs":["h","i"]})");
  EXPECT_EQ(Post("/tokenize", R"({"messages":[{"role":"u","content":""}]})").body,
            R"({"count":16,"max_model_len":100,"tokens":[256,117,10,257,10,256,97,115,115,105,115,)"
            R"(116,97,110,116,10],"token_strs":null})");
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[256,104,105]})").body,
            R"({"prompt":"<|im_start|>hi"})");
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[999]})").param(), "tokens");
  EXPECT_EQ(Post("/tokenize", R"({"model":"zz","prompt":"a"})").status, 404);
}

TEST_F(FrontendTest, TheTokenizerIsFetchedOnce) {
  FakeWorker& first = AddWorker(1);
  FakeWorker& second = AddWorker(2);
  Start();
  std::array<Reply, 8> replies;
  for (Reply& reply : replies) Begin(reply, kChat, ChatBody());
  sim_.RunUntil(
      [&] {
        return std::all_of(replies.begin(), replies.end(),
                           [](const Reply& reply) { return reply.done; });
      },
      seconds(20));
  for (const Reply& reply : replies) EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(first.artifact_calls + second.artifact_calls, 2);
}

TEST_F(FrontendTest, HealthListsWhoIsKeptOut) {
  AddWorker(1);
  FakeWorker& odd = AddWorker(2);
  Start();
  EXPECT_NE(Get("/health").body.find(R"("instance_id":2,)"), std::string::npos);
  EXPECT_EQ(Get("/live").status, 200);
  (void)odd;
  wire::Instance other;
  other.id = 3;
  other.started_unix_ms = 9;
  other.card.name = "m";
  other.card.role = "agg";
  other.card.weights_digest = "different";
  FakeWorker third(sim_.AddHost("w3"), hub_, other, {});
  sim_.RunFor(milliseconds(200));
  const std::string health = Get("/health").body;
  EXPECT_NE(health.find(R"("state":"excluded","reason":"weights_digest is different)"),
            std::string::npos)
      << health;
}

TEST_F(FrontendTest, StopsCleanly) {
  FakeWorker& worker = AddWorker(1);
  worker.script().first_delay = seconds(1);
  Start();
  Reply reply;
  Begin(reply, kChat, ChatBody());
  sim_.RunUntil([&] { return worker.running == 1; });
  stop_.Cancel();
  EXPECT_TRUE(sim_.RunUntil([&] { return stopped_; }, seconds(10)));
  sim_.RunFor(seconds(1));
  EXPECT_TRUE(result_.has_value());
  EXPECT_TRUE(reply.done);
  EXPECT_EQ(reply.status, 200) << "requests under way may end";
}

TEST_F(FrontendTest, AStreamThatOutlastsTheDrainTimeIsTold) {
  FakeWorker& worker = AddWorker(1, "agg", std::string(90, 'x'));
  worker.script().token_delay = seconds(1);
  Start();
  Reply stream;
  Begin(stream, kChat, ChatBody(R"("stream":true,"max_tokens":90)"));
  sim_.RunUntil([&] { return !stream.body.empty(); });
  Reply whole;
  Begin(whole, kChat, ChatBody(R"("max_tokens":90)"));
  sim_.RunUntil([&] { return worker.running == 2; });
  stop_.Cancel();
  EXPECT_TRUE(sim_.RunUntil([&] { return stopped_; }, seconds(10)));
  sim_.RunFor(seconds(1));
  ASSERT_TRUE(stream.done && whole.done);
  EXPECT_FALSE(stream.broken);
  const auto events = stream.events();
  ASSERT_GE(events.size(), 3u) << stream.body;
  EXPECT_EQ(events.back(), "[DONE]");
  const std::string& error = events[events.size() - 2];
  for (const char* part : {"the server is stopping", "service_unavailable", "\"code\":503"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(whole.status, 503) << whole.body;
  EXPECT_EQ(worker.running, 0);
}

// Whatever the moment, what the dead process held falls apart in good order.
TEST_F(FrontendTest, AFrontendMayDieAtAnyMoment) {
  AddWorker(1, "prefill");
  FakeWorker& decode = AddWorker(2, "decode", "abcdefgh");
  decode.script().token_delay = milliseconds(3);
  Start();
  std::array<Reply, 6> replies;
  for (size_t i = 0; i < replies.size(); ++i) {
    Begin(replies[i], i % 2 == 0 ? kChat : kCompletion,
          i % 2 == 0 ? ChatBody(R"("stream":true)") : CompletionBody(R"("n":2)"));
    sim_.RunFor(milliseconds(4));
  }
  host_.Kill();
  sim_.RunFor(seconds(10));
  EXPECT_EQ(workers_[0]->running, 0);
  EXPECT_EQ(decode.running, 0);
  for (const Reply& reply : replies) EXPECT_TRUE(reply.done);
}

TEST_F(FrontendTest, ManyPromptsTimesManyChoicesAreRefused) {
  AddWorker(1);
  Start();
  std::string prompts = "\"x\"";
  for (int i = 0; i < 99; ++i) prompts += ",\"x\"";
  const Reply reply = Post(kCompletion, fmt::format(R"({{"prompt":[{}],"n":100}})", prompts));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.param(), "n");
}

TEST(FrontendOptionsTest, ValidateNamesTheFlag) {
  FrontendOptions options;
  EXPECT_TRUE(Validate(options).has_value());
  options.router_mode = "kv";
  EXPECT_EQ(Validate(options).error().param, "--router-mode");
  options = {};
  options.request_timeout = Duration{0};
  EXPECT_EQ(Validate(options).error().param, "--request-timeout");
  options = {};
  options.metrics_prefix = "9x";
  EXPECT_EQ(Validate(options).error().param, "--metrics-prefix");
}

}  // namespace
}  // namespace tandem::frontend

// A frontend with scripted workers on the simulated network, spoken to over HTTP. Tests only.
#ifndef TANDEM_FRONTEND_TEST_FRONTEND_H_
#define TANDEM_FRONTEND_TEST_FRONTEND_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/frontend.h"
#include "frontend/test_assets.h"
#include "net/http_client.h"
#include "router/fake_worker.h"
#include "wire/json.h"

namespace tandem::frontend {

using router::FakeWorker;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Json;

inline constexpr std::string_view kChat = "/v1/chat/completions";
inline constexpr std::string_view kCompletion = "/v1/completions";

struct Reply {
  int status = 0;
  net::HttpHeaders headers;
  std::string body;
  bool broken = false;
  bool done = false;

  Json json() const {
    auto parsed = wire::ParseJson(body);
    EXPECT_TRUE(parsed.has_value()) << body;
    return parsed ? *std::move(parsed) : Json();
  }
  std::string param() const {
    const Json all = json();
    const Json* error = all.Find("error");
    if (error == nullptr || !error->Find("param")->IsString()) return "";
    return error->Find("param")->AsString();
  }
  // The data of each event.
  std::vector<std::string> events() const {
    std::vector<std::string> events;
    size_t at = 0;
    while (at < body.size()) {
      const size_t end = body.find("\n\n", at);
      EXPECT_EQ(body.substr(at, 6), "data: ");
      events.push_back(body.substr(at + 6, end - at - 6));
      if (end == std::string::npos) break;
      at = end + 2;
    }
    return events;
  }
};

inline const Json& Choice0(const Json& json) { return json.Find("choices")->AsArray().at(0); }

class FrontendTest : public testing::Test {
 protected:
  FakeWorker& AddWorker(uint64_t id, std::string role = "agg", std::string_view says = "hello") {
    wire::Instance instance;
    instance.id = id;
    instance.started_unix_ms = 1;
    wire::ModelCard& card = instance.card;
    card.name = model_;
    card.role = std::move(role);
    card.max_model_len = max_model_len_;
    card.kv_connector = "NixlConnector";
    card.tokenizer_digest = Hex(Sha256(tokenizer_));
    card.template_digest = Hex(Sha256(kTestTemplate));
    FakeWorker::Script script;
    script.tokens = IdsOf(says);
    workers_.push_back(std::make_unique<FakeWorker>(sim_.AddHost(fmt::format("w{}", id)), hub_,
                                                    std::move(instance), std::move(script)));
    FakeWorker& worker = *workers_.back();
    worker.artifacts[Hex(Sha256(tokenizer_))] = tokenizer_;
    worker.artifacts[Hex(Sha256(kTestTemplate))] = std::string(kTestTemplate);
    return worker;
  }

  void Start(FrontendOptions options = {}) {
    options.port = 0;
    host_.Spawn(Serve(std::move(options)));
    ASSERT_TRUE(sim_.RunUntil([&] { return address_.port != 0; }));
    sim_.RunFor(milliseconds(100));
  }

  rt::Task<void> Serve(FrontendOptions options) {
    result_ = co_await RunFrontend({.runtime = host_,
                                    .discovery = *discovery_,
                                    .metrics = metrics_,
                                    .on_ready = [this](const rt::Address& at) { address_ = at; }},
                                   std::move(options), stop_.Token(), seconds(2));
    stopped_ = true;
  }

  rt::Task<void> Fetch(net::HttpClientRequest request, Reply* reply) {
    net::HttpClient client(client_host_, address_);
    request.on_body = [reply](std::string_view piece) { reply->body += piece; };
    auto response = co_await client.Send(std::move(request));
    if (response) {
      reply->status = response->status;
      reply->headers = response->headers;
      reply->body += response->body;
    }
    reply->broken = !response.has_value();
    reply->done = true;
  }

  void Begin(Reply& reply, std::string_view path, std::string body,
             net::HttpHeaders headers = {{"content-type", "application/json"}},
             rt::CancelToken cancel = {}) {
    net::HttpClientRequest request;
    request.method = "POST";
    request.target = path;
    request.headers = std::move(headers);
    request.body = std::move(body);
    request.cancel = std::move(cancel);
    client_host_.Spawn(Fetch(std::move(request), &reply));
  }

  Reply Post(std::string_view path, std::string body,
             net::HttpHeaders headers = {{"content-type", "application/json"}}) {
    Reply reply;
    Begin(reply, path, std::move(body), std::move(headers));
    EXPECT_TRUE(sim_.RunUntil([&] { return reply.done; }, seconds(700)));
    return reply;
  }
  Reply Get(std::string path, std::string method = "GET") {
    Reply reply;
    net::HttpClientRequest request;
    request.method = std::move(method);
    request.target = std::move(path);
    client_host_.Spawn(Fetch(std::move(request), &reply));
    EXPECT_TRUE(sim_.RunUntil([&] { return reply.done; }, seconds(60)));
    return reply;
  }
  static std::string ChatBody(std::string_view more = {}) {
    return fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}{}}})",
                       more.empty() ? "" : ",", more);
  }
  static std::string CompletionBody(std::string_view more = {}) {
    return fmt::format(R"({{"model":"m","prompt":"hi"{}{}}})", more.empty() ? "" : ",", more);
  }

  std::string model_ = "m";
  int64_t max_model_len_ = 100;
  std::string tokenizer_ = TestTokenizerBytes();
  rt::SimRuntime sim_{11};
  cluster::MemHub hub_{sim_};
  rt::SimHost& host_ = sim_.AddHost("frontend");
  rt::SimHost& client_host_ = sim_.AddHost("client");
  std::unique_ptr<cluster::Discovery> discovery_ = hub_.Open(host_);
  Metrics metrics_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  rt::CancelSource stop_;
  rt::Address address_;
  Status result_;
  bool stopped_ = false;
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_TEST_FRONTEND_H_

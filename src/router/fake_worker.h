// A worker for tests: the request plane's methods with scripted answers, on a host of its own.
// Tests only.
#ifndef TANDEM_ROUTER_FAKE_WORKER_H_
#define TANDEM_ROUTER_FAKE_WORKER_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "cluster/mem_discovery.h"
#include "net/rpc_server.h"
#include "rt/sim_runtime.h"
#include "rt/stream.h"
#include "wire/messages.h"

namespace tandem::router {

class FakeWorker {
 public:
  struct Script {
    std::vector<wire::TokenId> tokens;  // what each choice says, as far as max_tokens allows
    wire::TokenId eos = 257;            // follows the tokens
    Duration first_delay = std::chrono::milliseconds(5);
    Duration token_delay = std::chrono::milliseconds(1);
    std::optional<Error> error;  // instead of an answer
    int64_t error_after = 0;     // tokens before the error
    std::string fallback_reason;
  };

  FakeWorker(rt::SimHost& host, cluster::MemHub& hub, wire::Instance instance, Script script)
      : host_(host), discovery_(hub.Open(host)), script_(std::move(script)) {
    auto listener = host.network().Listen({"127.0.0.1", 0});
    CHECK(listener.has_value());
    server_ = std::make_unique<net::RpcServer>(host, *std::move(listener));
    server_->Handle("generate", [this](net::RpcCall& call) { return Generate(call); });
    server_->Handle("release", [this](net::RpcCall& call) { return Release(call); });
    server_->Handle("artifact", [this](net::RpcCall& call) { return Artifact(call); });
    server_->Start();
    instance.ns = "dynamo";
    instance.endpoint = "generate";
    instance.component = instance.card.role == "prefill" ? "prefill" : "backend";
    instance.address = server_->address().ToString();
    instance_ = std::move(instance);
    Register();
  }

  void Register() { registration_ = *discovery_->Register(instance_); }
  void Unregister() { registration_.reset(); }
  Script& script() { return script_; }
  uint64_t id() const { return instance_.id; }
  rt::SimHost& host() { return host_; }

  // What was asked, and what is still going on.
  std::vector<wire::GenerateRequest> requests;
  std::vector<std::string> released;
  std::map<std::string, std::string> artifacts;  // by digest
  int running = 0;
  int cancelled = 0;
  int artifact_calls = 0;
  std::map<std::string, int> leases;  // request ids of prefill legs that nobody released

 private:
  struct Running {
    int& count;
    explicit Running(int& c) : count(c) { ++count; }
    ~Running() { --count; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
  };

  rt::Task<Status> Pause(net::RpcCall& call, Duration d) {
    const Status slept = co_await host_.Sleep(d, call.token());
    if (!slept) ++cancelled;
    co_return slept;
  }

  rt::Task<Status> Generate(net::RpcCall& call) {
    const Running guard(running);
    CO_TRY_ASSIGN(const wire::GenerateRequest request, wire::DecodeGenerateRequest(call.payload()));
    requests.push_back(request);
    CO_TRY(co_await Pause(call, script_.first_delay));
    if (script_.error && script_.error_after == 0) co_return std::unexpected(*script_.error);
    if (request.kv_transfer_params.find("\"do_remote_decode\":true") != std::string::npos)
      co_return co_await Prefill(call, request);
    for (int64_t i = 0; i < request.max_tokens; ++i) {
      if (script_.error && i == script_.error_after) co_return std::unexpected(*script_.error);
      if (i > 0) CO_TRY(co_await Pause(call, script_.token_delay));
      bool more = true;
      for (int32_t choice = 0; choice < request.n; ++choice) {
        wire::GenerateItem item = Item(request, choice, i);
        more = item.finish == wire::FinishReason::kNone;
        CO_TRY(co_await call.Send(wire::Encode(item)));
      }
      if (!more) break;
    }
    co_return Status();
  }

  rt::Task<Status> Prefill(net::RpcCall& call, const wire::GenerateRequest& request) {
    wire::GenerateItem item;
    item.tokens = {1};
    item.finish = wire::FinishReason::kLength;
    item.kv_transfer_params =
        fmt::format(R"({{"do_remote_prefill":true,"worker":{}}})", instance_.id);
    ++leases[request.request_id];
    co_return co_await call.Send(wire::Encode(item));
  }

  wire::GenerateItem Item(const wire::GenerateRequest& request, int32_t choice, int64_t i) const {
    const auto size = static_cast<int64_t>(script_.tokens.size());
    wire::GenerateItem item;
    item.choice = choice;
    const wire::TokenId token = i < size ? script_.tokens[static_cast<size_t>(i)] : script_.eos;
    item.tokens = {token};
    if (request.logprobs >= 0) {
      wire::TokenLogprob logprob{.token = token, .logprob = -0.5f, .rank = 1, .top = {}};
      for (int32_t k = 0; k < request.logprobs; ++k)
        logprob.top.emplace_back(token + k, -0.5f - static_cast<float>(k));
      item.logprobs.push_back(std::move(logprob));
    }
    const auto& stops = request.stop_token_ids;
    if (i >= size || std::find(stops.begin(), stops.end(), token) != stops.end()) {
      item.finish = wire::FinishReason::kStop;
      item.stop_token = token;
    } else if (i + 1 == request.max_tokens) {
      item.finish = wire::FinishReason::kLength;
    }
    if (choice == 0 && i == 0) {
      const auto prompt = static_cast<int32_t>(request.prompt.size());
      const bool pulls = !request.kv_transfer_params.empty() && script_.fallback_reason.empty();
      item.cached_tokens = 2;
      item.computed_prompt_tokens = pulls ? 1 : prompt;
      item.pulled_tokens = pulls ? prompt - 1 : 0;
      item.pulled_bytes = pulls ? 1000 : 0;
      item.pull_seconds = pulls ? 0.25 : 0;
      item.pull_transport = pulls ? "sim" : "";
      if (!request.kv_transfer_params.empty()) item.fallback_reason = script_.fallback_reason;
    }
    return item;
  }

  rt::Task<Status> Release(net::RpcCall& call) {
    CO_TRY_ASSIGN(const wire::ReleaseRequest request, wire::DecodeReleaseRequest(call.payload()));
    released.push_back(request.request_id);
    leases.erase(request.request_id);
    co_return Status();
  }

  rt::Task<Status> Artifact(net::RpcCall& call) {
    ++artifact_calls;
    CO_TRY_ASSIGN(const wire::ArtifactRequest request, wire::DecodeArtifactRequest(call.payload()));
    const auto found = artifacts.find(request.digest);
    if (found == artifacts.end()) co_return Err(Code::kNotFound, "no artefact {}", request.digest);
    // In two pieces, so that putting them together is tested.
    const auto bytes = std::as_bytes(std::span(found->second));
    const size_t half = bytes.size() / 2;
    CO_TRY(co_await call.Send(net::Bytes(bytes.begin(), bytes.begin() + half)));
    co_return co_await call.Send(net::Bytes(bytes.begin() + half, bytes.end()));
  }

  rt::SimHost& host_;
  std::unique_ptr<cluster::Discovery> discovery_;
  Script script_;
  wire::Instance instance_;
  std::unique_ptr<net::RpcServer> server_;
  std::unique_ptr<cluster::Registration> registration_;
};

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_FAKE_WORKER_H_

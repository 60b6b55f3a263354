// One request on its way through the workers: prefill leg, decode leg, one retry of each.
#ifndef TANDEM_ROUTER_GENERATION_H_
#define TANDEM_ROUTER_GENERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/rpc_client.h"
#include "router/worker.h"
#include "rt/cancel.h"
#include "rt/task.h"
#include "wire/messages.h"

namespace tandem::router {

class Router;
struct ModelGroup;

// What happened, for metrics and for a client that asks.
struct GenerationFacts {
  uint64_t prefill_worker = 0;  // 0: no prefill leg
  uint64_t serving_worker = 0;  // decode or aggregated
  Duration prefill_time{0};     // of the prefill leg, retries included
  int retries = 0;
  std::string fallback;  // reason, empty if there was none
};

class Generation {
 public:
  Generation(Router& router, wire::GenerateRequest request, MonoTime deadline,
             rt::CancelToken cancel);
  // Ends the request on all workers and releases what a prefill worker holds for it.
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The next piece of the answer; nullopt after the last choice has ended. The first call runs the
  // prefill leg. An error ends the request: kUnavailable, kOverloaded, kIncompatible before the
  // first token, kConnectionLost after it, the deadline, the cancel reason, or the worker's own.
  rt::Task<Result<std::optional<wire::GenerateItem>>> Next();

  const GenerationFacts& facts() const { return facts_; }
  const std::vector<wire::TokenId>& prompt() const { return request_.prompt; }

 private:
  // While set, somebody has to tell the prefill worker that nobody will collect its KV.
  class Lease;

  rt::Task<Status> Start();
  rt::Task<Status> RunPrefillLeg();
  rt::Task<Result<std::string>> Prefill(wire::Instance instance);
  Status FallBack(std::string_view reason);
  Status StartServing(uint64_t except);
  Result<wire::GenerateItem> Accept(const wire::Bytes& payload);
  Status Retry(Error error);

  Router& router_;
  wire::GenerateRequest request_;
  const MonoTime deadline_;
  const rt::CancelToken cancel_;
  GenerationFacts facts_;
  bool started_ = false;
  bool retried_ = false;
  bool seen_item_ = false;
  int32_t choices_left_ = 0;
  int64_t tokens_ = 0;
  Role role_ = Role::kAggregated;
  std::string connector_;                     // of the prefill worker
  std::unique_ptr<Lease> lease_;              // destroyed after stream_: cancel goes before release
  std::shared_ptr<net::RpcChannel> channel_;  // see Router::Channel
  std::unique_ptr<net::RpcStream> stream_;
};

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_GENERATION_H_

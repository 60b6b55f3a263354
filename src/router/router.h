// The router: finds workers for a request, runs its legs, retries, and gives back what a prefill
// worker keeps for nobody. docs/contracts/frontend-worker.md. Loop thread only.
#ifndef TANDEM_ROUTER_ROUTER_H_
#define TANDEM_ROUTER_ROUTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/metrics.h"
#include "base/result.h"
#include "cluster/discovery.h"
#include "net/rpc_client.h"
#include "router/generation.h"
#include "router/router_table.h"
#include "rt/runtime.h"
#include "rt/scope.h"

namespace tandem::router {

struct RouterOptions {
  std::string mode = "round-robin";
  std::string ns = "dynamo";
  std::string only_model = {};  // empty: all
  bool enforce_disagg = false;
  Duration inhibit = std::chrono::seconds(3);
};

class Router {
 public:
  // Fails, naming the flag, for an unknown mode. All arguments outlive the router.
  static Result<std::unique_ptr<Router>> Create(rt::Runtime& runtime, cluster::Discovery& discovery,
                                                Metrics& metrics, RouterOptions options);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  RouterTable& table() { return table_; }
  // Called now and after each change of the set of workers.
  void SetOnChange(std::function<void()> on_change);
  rt::Runtime& runtime() { return runtime_; }
  const RouterOptions& options() const { return options_; }

  // Nothing happens before the first Next of the result. The router outlives the generation.
  std::unique_ptr<Generation> Generate(wire::GenerateRequest request, MonoTime deadline,
                                       rt::CancelToken cancel);

  // The bytes with this SHA-256 (hex), from any worker of the model; checked. At most `max_bytes`.
  rt::Task<Result<std::string>> FetchArtifact(std::string model, std::string digest,
                                              size_t max_bytes, rt::CancelToken cancel = {});

  // Ends the watch and waits for the releases under way. Generations must have ended.
  rt::Task<void> Stop();

  // For generations.
  // Shared: a worker that left discovery ends its calls; the last of them ends the connection.
  using Channel = std::shared_ptr<net::RpcChannel>;
  Result<Channel> ChannelTo(const wire::Instance& instance);
  void ReleaseLater(Channel channel, std::string request_id);
  // Counts a fallback; says it the first time.
  void CountFallback(std::string_view model, std::string_view reason);
  void CountRetry(std::string_view model, Role role);
  void CountPull(std::string_view model, const wire::GenerateItem& item);
  // A call to the worker failed like this.
  void NoteFailure(uint64_t instance, const Error& error);

 private:
  Router(rt::Runtime& runtime, cluster::Discovery& discovery, Metrics& metrics,
         RouterOptions options, std::unique_ptr<Picker> picker);
  void OnInstances(const std::vector<wire::Instance>& instances);
  rt::Task<void> Release(Channel channel, std::string request_id);
  rt::Task<Result<std::string>> FetchFrom(Channel channel, std::string digest, size_t max_bytes,
                                          rt::CancelToken cancel);

  rt::Runtime& runtime_;
  Metrics& metrics_;
  const RouterOptions options_;
  RouterTable table_;
  std::function<void()> on_change_;
  std::unordered_map<uint64_t, Channel> channels_;  // of live instances
  std::set<std::string, std::less<>> said_;         // fallback reasons; bounded by kMaxReasons
  std::unique_ptr<cluster::Watch> watch_;
  rt::TaskScope scope_;
};

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_ROUTER_H_

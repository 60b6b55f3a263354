// A whole cluster under simulated time: frontend, prefill and decode workers with the mock engine,
// clients over HTTP, and somebody who kills processes and cuts links.
#ifndef TANDEM_TESTS_SIM_CLUSTER_WORLD_H_
#define TANDEM_TESTS_SIM_CLUSTER_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "cluster/mem_discovery.h"
#include "engine/worker_options.h"
#include "frontend/options.h"
#include "rt/cancel.h"
#include "rt/sim_runtime.h"
#include "rt/stream.h"
#include "wire/messages.h"

namespace tandem::cluster_sim {

inline constexpr Duration kLease = std::chrono::seconds(4);

// One life of a worker's process.
class WorkerProcess {
 public:
  WorkerProcess(rt::SimRuntime& sim, cluster::MemHub& hub, std::string name, engine::Role role);
  const std::string& name() const { return name_; }
  engine::Role role() const { return role_; }
  rt::SimHost& host() { return host_; }
  bool Ready() const { return ready_ && host_.Alive(); }
  const wire::Instance& instance() const { return instance_; }

 private:
  rt::Task<void> Run(std::string host_name);

  std::string name_;
  engine::Role role_;
  rt::SimHost& host_;
  std::unique_ptr<cluster::Discovery> discovery_;
  Metrics metrics_;
  wire::Instance instance_;
  bool ready_ = false;
};

// A request as its client saw it.
struct ClientRequest {
  std::string id;
  int prompt = 0;  // which of the prompts
  int max_tokens = 0;
  bool stream = false;
  bool leaves = false;  // the client goes away at a random moment
  Duration timeout{};

  int ends = 0;  // how often the client was told the end: must be 1
  int status = 0;
  bool broken = false;       // the connection ended before the answer did
  bool error_event = false;  // in a stream
  std::vector<wire::TokenId> tokens;
};

class World {
 public:
  explicit World(uint64_t seed);
  ~World();

  // Runs `count` requests one by one against aggregated workers without faults, and keeps what
  // each prompt's answer is.
  void RecordAnswers();
  // Runs the requests spread over `span` of time while faults happen, then heals everything and
  // waits until leases have expired.
  void Run(int count, Duration span, bool faults);

  const std::vector<std::unique_ptr<ClientRequest>>& requests() const { return requests_; }
  // Empty if the answer is what the prompt must give, else what is wrong.
  std::string Wrong(const ClientRequest& request) const;
  // What is still held anywhere, as text; empty if nothing.
  std::string Leaks();
  std::string FrontendMetric(std::string_view line_start) const;
  uint64_t TraceHash() const { return sim_.TraceHash(); }
  int kills() const { return kills_; }
  int partitions() const { return partitions_; }

 private:
  rt::Task<void> Serve();
  rt::Task<void> RunClient(ClientRequest* request, MonoTime when);
  rt::Task<void> MakeTrouble(MonoTime until);
  rt::Task<void> Get(rt::Address address, std::string path, std::string* body);
  void StartWorker(const std::string& name, engine::Role role);
  std::string Body(const ClientRequest& request) const;
  void Read(ClientRequest& request, std::string_view body) const;
  uint64_t Below(uint64_t n) { return client_.Random() % n; }
  WorkerProcess& Current(const std::string& name);

  rt::SimRuntime sim_;
  cluster::MemHub hub_;
  rt::SimHost& frontend_;
  rt::SimHost& client_;
  std::unique_ptr<cluster::Discovery> discovery_;
  Metrics metrics_;
  rt::Address address_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;  // dead ones too
  std::vector<std::unique_ptr<ClientRequest>> requests_;
  std::map<int, std::vector<wire::TokenId>> answers_;  // by prompt, at kLongest tokens
  size_t open_ = 0;
  int kills_ = 0;
  int partitions_ = 0;
};

}  // namespace tandem::cluster_sim

#endif  // TANDEM_TESTS_SIM_CLUSTER_WORLD_H_

// Which workers serve which model, kept up to date from discovery. Loop thread only.
//
// A model can be served when it has an aggregated or a decode worker. Workers that disagree with
// the model's earliest registered one are kept, but excluded from routing.
#ifndef TANDEM_ROUTER_ROUTER_TABLE_H_
#define TANDEM_ROUTER_ROUTER_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "base/time.h"
#include "router/picker.h"
#include "router/worker.h"

namespace tandem::router {

// How a model's requests run, given the workers that are there.
enum class Topology : uint8_t {
  kNone,           // nobody can serve it
  kAggregated,     // one leg
  kDisaggregated,  // prefill leg, then decode leg
  kDecodeAlone,    // decode workers without prefill workers: one leg, a fallback
};

struct ModelGroup {
  std::string name;
  wire::ModelCard card;       // of the earliest registered worker
  int64_t max_model_len = 0;  // the smallest among its workers
  int64_t created_unix = 0;   // seconds; when the earliest worker started
  // In routing, in order of instance id.
  std::array<std::vector<const Worker*>, kRoles> by_role;

  const std::vector<const Worker*>& Of(Role role) const {
    return by_role[static_cast<size_t>(role)];
  }
  Topology topology() const;
  bool Servable() const { return topology() != Topology::kNone; }
};

class RouterTable {
 public:
  struct Options {
    Duration inhibit = std::chrono::seconds(3);
    std::string only_model;  // empty: all
  };
  // `now` is the loop's clock.
  RouterTable(Options options, std::unique_ptr<Picker> picker, std::function<MonoTime()> now,
              Metrics& metrics);

  // Takes the whole new set of live instances.
  void Update(std::span<const wire::Instance> instances);

  // By name or alias. An empty name finds the only servable model. Errors: kNotFound for an unknown
  // model (param "model"), kUnavailable if there is no worker at all or none that can serve it
  // (the message says which role is missing).
  Result<const ModelGroup*> Find(std::string_view model) const;
  // Names and aliases count as known even if no worker can serve the model now.
  std::vector<const ModelGroup*> Models() const;
  std::vector<const Worker*> Workers() const;

  struct PickOptions {
    uint64_t except = 0;                     // the worker that failed
    const std::string* connector = nullptr;  // only workers of this kv_connector
    bool paired = false;  // only prefill workers that share a kv_connector with a decode worker
    std::span<const wire::TokenId> prompt = {};
  };
  // One worker of that role; inhibited ones only if there is no other. nullptr if there is none.
  const Worker* Pick(const ModelGroup& group, Role role, const PickOptions& options);

  // kIncompatible, naming both values, if no prefill and decode worker of the model agree.
  Status CheckPairs(const ModelGroup& group) const;

  // The connection to this worker was lost.
  void Inhibit(uint64_t instance);

 private:
  void Regroup();
  void Exclude(Worker& worker, const wire::Instance& earliest);
  void ShowStates();

  Options options_;
  std::unique_ptr<Picker> picker_;
  std::function<MonoTime()> now_;
  Metrics& metrics_;
  std::map<uint64_t, Worker> workers_;
  std::map<std::string, ModelGroup, std::less<>> groups_;
  std::map<std::string, std::string, std::less<>> aliases_;
  std::vector<Gauge*> state_gauges_;
};

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_ROUTER_TABLE_H_

// The numbers of an engine as Prometheus series, named as the reference names them where it has
// them.
#ifndef TANDEM_ENGINE_WORKER_METRICS_H_
#define TANDEM_ENGINE_WORKER_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "engine/engine.h"
#include "wire/messages.h"

namespace tandem::engine {

// Copies statistics into the registry; call before rendering.
class WorkerMetrics {
 public:
  WorkerMetrics(Metrics& metrics, const wire::ModelCard& card);
  void Update(const EngineStats& stats);

 private:
  void Gauge(std::string_view name, std::string_view help, double value);
  // A counter that follows a number which only grows.
  void Count(std::string_view name, std::string_view help, uint64_t value, Labels more = {});

  Metrics& metrics_;
  const Labels labels_;
  std::map<std::string, uint64_t> seen_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_WORKER_METRICS_H_

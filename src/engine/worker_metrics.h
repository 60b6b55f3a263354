// The worker's numbers as metrics: names of the reference where it has one (vllm:...), tandem_...
// for the rest.
#ifndef TANDEM_ENGINE_WORKER_METRICS_H_
#define TANDEM_ENGINE_WORKER_METRICS_H_

#include <string>

#include "base/metrics.h"
#include "engine/engine.h"

namespace tandem::engine {

// What the network side adds to EngineStats.
struct PlaneStats {
  size_t rpc_streams = 0;
  size_t rpc_connections = 0;
};

// Copies a snapshot into the registry. Totals only grow there, as they do in the snapshot.
void PublishStats(Metrics& metrics, const std::string& model, const EngineStats& stats,
                  const PlaneStats& planes);

// The same snapshot as a JSON object, for /debug/state.
std::string StatsJson(const EngineStats& stats, const PlaneStats& planes);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_WORKER_METRICS_H_

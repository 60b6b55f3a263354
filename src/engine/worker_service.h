// One worker process: an engine on the request plane, registered in discovery, with its system
// server (/health, /live, /metrics, /debug/state).
#ifndef TANDEM_ENGINE_WORKER_SERVICE_H_
#define TANDEM_ENGINE_WORKER_SERVICE_H_

#include <functional>
#include <memory>

#include "base/metrics.h"
#include "base/result.h"
#include "cluster/discovery.h"
#include "engine/worker_options.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "wire/messages.h"

namespace tandem::engine {

// What the caller lends to a worker. All of it outlives the task.
struct WorkerEnvironment {
  rt::Runtime& runtime;
  cluster::Discovery& discovery;
  Metrics& metrics;
  // Fraction 0..1 while the model loads; called on another thread with the real runtime.
  std::function<void(double)> on_load_progress;
  // Called once on the loop when the worker is registered and serves.
  std::function<void(const wire::Instance&)> on_ready;
};

// Serves until `stop` fires, then leaves discovery, gives requests under way `drain` to end, ends
// the rest and returns. An error means that it could not start (model, ports, flags).
rt::Task<Status> RunWorker(WorkerEnvironment environment, WorkerOptions options,
                           rt::CancelToken stop, Duration drain = std::chrono::seconds(5));

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_WORKER_SERVICE_H_

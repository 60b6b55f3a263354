// An engine that is ready to serve, with what the worker publishes about it.
#ifndef TANDEM_ENGINE_LOADED_ENGINE_H_
#define TANDEM_ENGINE_LOADED_ENGINE_H_

#include <functional>
#include <memory>

#include "base/metrics.h"
#include "base/result.h"
#include "engine/artifacts.h"
#include "engine/engine_core.h"
#include "engine/memory_budget.h"
#include "engine/worker_options.h"
#include "rt/runtime.h"
#include "wire/messages.h"

namespace tandem::engine {

struct LoadedEngine {
  std::unique_ptr<Engine> engine;  // started
  wire::ModelCard card;            // all of it
  ModelArtifacts artifacts;
};

// Loads the model on a helper thread and starts the engine. `on_progress`: fraction 0..1, called on
// the helper thread.
rt::Task<Result<LoadedEngine>> LoadNativeEngine(rt::Runtime& runtime, Metrics& metrics,
                                                WorkerOptions options,
                                                std::function<void(double)> on_progress);

rt::Task<Result<LoadedEngine>> LoadMockEngine(rt::Runtime& runtime, Metrics& metrics,
                                              WorkerOptions options);

// What both kinds share.
SchedulerOptions MakeSchedulerOptions(const WorkerOptions& options, const KvBudget& budget,
                                      const ModelArtifacts& artifacts);
std::optional<TransferOptions> MakeTransferOptions(rt::Runtime& runtime,
                                                   const WorkerOptions& options,
                                                   const xfer::KvIdentity& identity);
wire::ModelCard MakeCard(const WorkerOptions& options, const SchedulerOptions& scheduler,
                         const ModelArtifacts& artifacts, const xfer::KvIdentity& identity);
// Whether readers may map the arena: a worker that only reads keeps it to itself.
bool SharesArena(const WorkerOptions& options);
void SayBudget(const WorkerOptions& options, const KvBudget& budget);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_LOADED_ENGINE_H_

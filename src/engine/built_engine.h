// Builds the engine that a worker's options ask for: the one place that knows both kinds.
#ifndef TANDEM_ENGINE_BUILT_ENGINE_H_
#define TANDEM_ENGINE_BUILT_ENGINE_H_

#include <memory>

#include "base/result.h"
#include "engine/artifacts.h"
#include "engine/engine.h"
#include "engine/worker_options.h"
#include "engine/worker_service.h"
#include "rt/task.h"
#include "wire/messages.h"

namespace tandem::engine {

struct BuiltEngine {
  std::unique_ptr<Engine> engine;  // started: its side channel is open
  ModelArtifacts artifacts;
  // Everything but name, aliases and role: capacities, digests, layout, numerics, connector,
  // engine.
  wire::ModelCard card;
};

// Loads the model (on a helper thread), sizes the KV arena, says the memory table, opens the side
// channel.
rt::Task<Result<BuiltEngine>> BuildEngine(WorkerEnvironment& environment,
                                          const WorkerOptions& options);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_BUILT_ENGINE_H_

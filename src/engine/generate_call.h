// One "generate" call of the request plane, answered by an engine.
#ifndef TANDEM_ENGINE_GENERATE_CALL_H_
#define TANDEM_ENGINE_GENERATE_CALL_H_

#include <cstddef>

#include "engine/engine.h"
#include "net/rpc_server.h"
#include "rt/runtime.h"
#include "rt/task.h"

namespace tandem::engine {

struct CallBytes {
  size_t request = 0;
  size_t response = 0;
};

// Submits the request and sends its items as they come. While the client does not read, the items
// of a choice are joined, so what waits is bounded by the answer itself. Returns the engine's end.
rt::Task<Status> ServeGenerate(rt::Runtime& runtime, Engine& engine, net::RpcCall& call,
                               CallBytes& bytes);

// Appends `item` to `queue`, joined with the last one of its choice where that is possible. Exposed
// for tests.
void Enqueue(std::vector<wire::GenerateItem>& queue, wire::GenerateItem item);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_GENERATE_CALL_H_

// The engine as a worker service sees it. Implementations: the native engine (its scheduler on a
// thread of its own, kernels on a team) and the mock engine (the same scheduler and block
// accounting, with a latency model in place of the model; runs under simulated time).
#ifndef TANDEM_ENGINE_ENGINE_H_
#define TANDEM_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "wire/messages.h"

namespace tandem::engine {

// Numbers that tests, metrics and the health page read. A consistent snapshot.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t waiting_for_kv = 0;  // decode side: pulls under way or queued
  int64_t leases = 0;          // prefill side
  int64_t pins = 0;
  int64_t blocks_total = 0;
  int64_t blocks_free = 0;    // free or cached without a user
  int64_t blocks_cached = 0;  // of these, with content that a prompt may still hit
  uint64_t preemptions = 0;
  uint64_t steps = 0;
  uint64_t stalls = 0;            // steps in which the oldest sequence waited for a block
  uint64_t evictions = 0;         // cached blocks given up for new content
  uint64_t max_rows_in_step = 0;  // most sequences in one step so far
  uint64_t prompt_tokens_computed = 0;
  uint64_t prefix_hit_tokens = 0;
  uint64_t prefix_query_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t pulls = 0;
  uint64_t pulled_bytes = 0;
  uint64_t leases_granted = 0;
  uint64_t leases_expired = 0;
  int64_t remote_holds = 0;          // decode side: leases of others kept alive
  int64_t transfer_connections = 0;  // side channel, both directions
  // Prompts computed here instead of pulled, by reason.
  std::map<std::string, uint64_t, std::less<>> fallbacks;
};

// Receives the answer of one request, on the loop's thread: items in order, then exactly one Done,
// possibly within Submit. After the request's cancel token fired nothing but Done follows.
struct EngineSink {
  std::function<void(wire::GenerateItem)> on_item;
  std::function<void(Status)> on_done;
};

class Engine {
 public:
  virtual ~Engine() = default;
  // Loop thread. Never blocks: a full queue ends the request with kOverloaded through on_done.
  // `cancel` fires when the client left or the deadline passed: the engine drops the request before
  // its next layer or step and frees its blocks, leases, pins and pulls. At `deadline` the
  // request ends with kDeadlineExceeded by itself.
  virtual void Submit(wire::GenerateRequest request, MonoTime deadline, rt::CancelToken cancel,
                      EngineSink sink) = 0;
  // Ends what is left of a prefill leg: drops the request if it still runs and releases the leases
  // that were granted for it. Unknown ids are fine. Loop thread only.
  virtual void Release(const std::string& request_id) = 0;
  virtual EngineStats Stats() const = 0;  // loop thread
  // Stops taking requests, ends those under way with kUnavailable, joins its threads.
  virtual rt::Task<void> Stop() = 0;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_ENGINE_H_

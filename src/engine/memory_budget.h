// How much memory there is, and how much of it the KV arena gets.
#ifndef TANDEM_ENGINE_MEMORY_BUDGET_H_
#define TANDEM_ENGINE_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/worker_options.h"

namespace tandem::engine {

// Bytes that this process could still use: what the machine has available, or less where a control
// group (v1 or v2) limits it. `root` is "/" but in tests.
int64_t AvailableMemory(const std::string& root = "/");

struct KvBudget {
  int32_t blocks = 0;
  int64_t max_model_len = 0;
  std::string reason;    // how the number of blocks came about, for the log
  bool clamped = false;  // max_model_len is less than asked for or than the model's
};

// blocks: the explicit flag; else min(max_num_seqs x max_model_len, half of the available memory /
// workers on this host). max_model_len: the flag or the model's, cut to what the blocks hold.
// kInvalidArgument names the flag that leaves no room.
Result<KvBudget> PlanKv(const WorkerOptions& options, int64_t model_context, uint64_t block_bytes,
                        int64_t available);

// "1.5 GiB"
std::string FormatBytes(int64_t bytes);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_MEMORY_BUDGET_H_

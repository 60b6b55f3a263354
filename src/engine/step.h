// One step of the engine: which tokens of which sequences are computed together, and what came out.
#ifndef TANDEM_ENGINE_STEP_H_
#define TANDEM_ENGINE_STEP_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/sampler.h"

namespace tandem::engine {

// Consecutive tokens of one sequence. Spans point into the sequence and stay valid until the step
// is completed.
struct StepRow {
  Sequence* sequence = nullptr;
  std::span<const TokenId> tokens;
  int64_t start = 0;                // position of tokens[0]
  std::span<const BlockId> blocks;  // covers positions 0 .. start + tokens.size() - 1
  // Choices drawn from the logits of the last token: 0 for an unfinished prompt, n where a prompt
  // ends and the choices fork, else 1 (the sequence's own choice).
  int32_t samples = 0;
};

struct StepPlan {
  std::vector<StepRow> rows;
  int64_t tokens = 0;        // of all rows
  int32_t sampled_rows = 0;  // rows with samples > 0
  bool empty() const { return rows.empty(); }
};

struct StepResult {
  bool aborted = false;  // nothing was computed; the rows may be planned again
  // samples[i][c] is the token of choice c of row i; as many as the row asked for.
  std::vector<std::vector<model::SampledToken>> samples;
  // Rows whose logits were not all numbers: the weights are damaged, so their tokens mean nothing.
  // One entry for each row, or empty if there can be none.
  std::vector<uint8_t> damaged;
};

// Computes steps. One call at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  // Writes the KV of all rows into the arena and samples. Checks `abort` often; if it is set,
  // stops early with `aborted`. An error ends every request of the step.
  virtual Result<StepResult> Run(const StepPlan& plan, const std::atomic<bool>& abort) = 0;
  // Copies a block's bytes, for copy-on-write. Not during Run.
  virtual void CopyBlock(BlockId from, BlockId to) = 0;
  // How long the step takes under simulated time; zero where Run itself takes that time.
  virtual Duration ModelledTime(const StepPlan& plan) const = 0;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_STEP_H_

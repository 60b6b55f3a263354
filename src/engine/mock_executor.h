// An executor without a model. It keeps the paged KV honest all the same: the "KV" of a token is an
// 8-byte fingerprint of all tokens up to it, written into the arena and read back for the next one,
// and the sampled token follows from the last fingerprint. So the text depends on the prompt and
// the position only, and a block that holds another prompt's bytes shows as wrong text.
#ifndef TANDEM_ENGINE_MOCK_EXECUTOR_H_
#define TANDEM_ENGINE_MOCK_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/step.h"
#include "engine/worker_options.h"
#include "model/model.h"

namespace tandem::engine {

class MockExecutor final : public Executor {
 public:
  // `arena` outlives the executor; its blocks are options.block_bytes long, at least
  // 8 x block_tokens. `says` are the tokens that it produces, without end tokens, so that lengths
  // are as asked for; not empty.
  MockExecutor(const MockOptions& options, int block_tokens, model::KvArena arena,
               std::vector<TokenId> says);

  Result<StepResult> Run(const StepPlan& plan, const std::atomic<bool>& abort) override;
  void CopyBlock(BlockId from, BlockId to) override;
  Duration ModelledTime(const StepPlan& plan) const override;

  // The fingerprint of a sequence, and the token that follows it: what tests expect as output.
  static uint64_t Fingerprint(std::span<const TokenId> tokens);
  TokenId NextToken(uint64_t fingerprint, const Request& request, int32_t choice) const;

 private:
  std::byte* Slot(std::span<const BlockId> blocks, int64_t position) const;
  model::SampledToken Sample(uint64_t fingerprint, const Request& request, int32_t choice) const;

  const MockOptions options_;
  const int block_tokens_;
  const model::KvArena arena_;
  const std::vector<TokenId> says_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_MOCK_EXECUTOR_H_

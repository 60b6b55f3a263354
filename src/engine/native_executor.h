// Steps on a loaded model: one forward pass over all rows, then sampling, both on the team.
#ifndef TANDEM_ENGINE_NATIVE_EXECUTOR_H_
#define TANDEM_ENGINE_NATIVE_EXECUTOR_H_

#include <memory>
#include <vector>

#include "base/team.h"
#include "engine/step.h"
#include "model/model.h"
#include "model/sampler.h"

namespace tandem::engine {

class NativeExecutor final : public Executor {
 public:
  struct Options {
    int max_tokens = 0;      // of a step
    int max_logit_rows = 0;  // likewise
    uint64_t block_bytes = 0;
  };
  // Takes model and team over; the arena outlives the executor. kResourceExhausted where there is
  // no memory for a step's scratch.
  static Result<std::unique_ptr<NativeExecutor>> Create(std::unique_ptr<model::Model> model,
                                                        std::unique_ptr<Team> team,
                                                        model::KvArena arena, Options options);

  Result<StepResult> Run(const StepPlan& plan, const std::atomic<bool>& abort) override;
  void CopyBlock(BlockId from, BlockId to) override;
  Duration ModelledTime(const StepPlan& /*plan*/) const override { return Duration::zero(); }

 private:
  // One token to draw: from which logits, for which choice, and where it goes.
  struct Draw {
    const StepRow* row = nullptr;
    int32_t choice = 0;
    size_t logit_row = 0;
    uint8_t* damaged = nullptr;  // of the row; null for its further choices
    model::SampledToken* out = nullptr;
  };

  NativeExecutor(std::unique_ptr<model::Model> model, std::unique_ptr<Team> team,
                 model::KvArena arena, Options options);
  void Sample(const Draw& draw, model::Sampler& sampler);

  const Options options_;
  const std::unique_ptr<model::Model> model_;
  const std::unique_ptr<Team> team_;
  const model::KvArena arena_;
  const size_t vocab_;
  std::unique_ptr<float[]> logits_;       // max_logit_rows x vocab; pages are touched on use
  std::vector<model::Sampler> samplers_;  // one per team member
  std::vector<model::BatchSlice> slices_;
  std::vector<Draw> draws_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_NATIVE_EXECUTOR_H_

#include "engine/native_executor.h"

#include <cstring>
#include <new>

#include "model/selection.h"

namespace tandem::engine {

Result<std::unique_ptr<NativeExecutor>> NativeExecutor::Create(std::unique_ptr<model::Model> model,
                                                               std::unique_ptr<Team> team,
                                                               model::KvArena arena,
                                                               Options options) {
  TRY(model->ReserveScratch(options.max_tokens, options.max_logit_rows));
  std::unique_ptr<NativeExecutor> executor(
      new NativeExecutor(std::move(model), std::move(team), arena, options));
  const size_t floats = static_cast<size_t>(options.max_logit_rows) * executor->vocab_;
  executor->logits_.reset(new (std::nothrow) float[floats]);
  if (executor->logits_ == nullptr)
    return Err(Code::kResourceExhausted,
               "no memory for the logits of {} sequences; lower --max-num-seqs",
               options.max_logit_rows);
  return executor;
}

NativeExecutor::NativeExecutor(std::unique_ptr<model::Model> model, std::unique_ptr<Team> team,
                               model::KvArena arena, Options options)
    : options_(options),
      model_(std::move(model)),
      team_(std::move(team)),
      arena_(arena),
      vocab_(static_cast<size_t>(model_->config().vocab)) {
  for (int i = 0; i < team_->MaxSize(); ++i) samplers_.emplace_back(model_->config().vocab);
}

Result<StepResult> NativeExecutor::Run(const StepPlan& plan, const std::atomic<bool>& abort) {
  slices_.clear();
  draws_.clear();
  StepResult result;
  result.samples.resize(plan.rows.size());
  result.damaged.resize(plan.rows.size());
  size_t logit_row = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const StepRow& row = plan.rows[i];
    slices_.push_back({.tokens = row.tokens,
                       .start_position = row.start,
                       .block_table = row.blocks,
                       .logit_rows = row.samples > 0 ? 1 : 0});
    if (row.samples == 0) continue;
    result.samples[i].resize(static_cast<size_t>(row.samples));
    for (int32_t s = 0; s < row.samples; ++s)
      draws_.push_back({.row = &row,
                        .choice = row.samples > 1 ? s : row.sequence->choice,
                        .logit_row = logit_row,
                        .damaged = s == 0 ? &result.damaged[i] : nullptr,
                        .out = &result.samples[i][static_cast<size_t>(s)]});
    ++logit_row;
  }
  const Status computed = model_->Forward(slices_, arena_, *team_,
                                          std::span(logits_.get(), logit_row * vocab_), &abort);
  if (!computed) {
    if (computed.error().code != Code::kCancelled) return std::unexpected(computed.error());
    result.aborted = true;
    return result;
  }
  if (draws_.size() == 1) {
    Sample(draws_.front(), samplers_.front());
  } else if (!draws_.empty()) {
    team_->Run([this](TeamMember& member) {
      for (auto i = static_cast<size_t>(member.index()); i < draws_.size();
           i += static_cast<size_t>(member.count()))
        Sample(draws_[i], samplers_[static_cast<size_t>(member.index())]);
    });
  }
  return result;
}

void NativeExecutor::Sample(const Draw& draw, model::Sampler& sampler) {
  const Sequence& sequence = *draw.row->sequence;
  const Request& request = *sequence.request;
  const auto prompt = static_cast<size_t>(request.PromptTokens());
  const std::span<const TokenId> tokens(sequence.tokens);
  const model::SamplingContext context{.prompt = tokens.first(prompt),
                                       .output = tokens.subspan(prompt),
                                       .seed = request.seed,
                                       .choice = static_cast<uint32_t>(draw.choice),
                                       .position = static_cast<uint64_t>(tokens.size())};
  const std::span logits(logits_.get() + draw.logit_row * vocab_, vocab_);
  if (draw.damaged != nullptr) *draw.damaged = model::AllFinite(logits) ? 0 : 1;
  *draw.out = sampler.Sample(request.sampling, context, logits);
}

void NativeExecutor::CopyBlock(BlockId from, BlockId to) {
  std::memcpy(arena_.base + static_cast<size_t>(to) * options_.block_bytes,
              arena_.base + static_cast<size_t>(from) * options_.block_bytes, options_.block_bytes);
}

}  // namespace tandem::engine

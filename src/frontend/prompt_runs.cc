#include "frontend/prompt_runs.h"

#include <utility>

namespace tandem::frontend {

PromptRuns::PromptRuns(router::Router& router, MonoTime deadline, rt::CancelToken cancel)
    : router_(router), deadline_(deadline), cancel_(std::move(cancel)) {}

PromptRuns::~PromptRuns() = default;

void PromptRuns::Add(wire::GenerateRequest request) {
  rt::CancelSource cancel(cancel_);
  auto generation = router_.Generate(std::move(request), deadline_, cancel.Token());
  runs_.push_back({std::move(generation), std::move(cancel)});
}

rt::Task<Result<std::optional<PromptRuns::Item>>> PromptRuns::Next() {
  return runs_.size() == 1 ? NextOfOne() : NextOfMany();
}

rt::Task<Result<std::optional<PromptRuns::Item>>> PromptRuns::NextOfMany() {
  if (!events_) {
    events_.emplace(router_.runtime(), 2 * runs_.size());
    scope_.emplace(router_.runtime());
    left_ = runs_.size();
    for (size_t i = 0; i < runs_.size(); ++i) scope_->Spawn(Pump(i));
  }
  while (left_ > 0) {
    CO_TRY_ASSIGN(auto event, co_await events_->Pop(cancel_));
    if (!event) break;
    const bool ended = !event->result || !*event->result;
    if (ended) --left_;
    if (runs_[event->run].stopped) continue;
    if (!event->result) co_return std::unexpected(std::move(event->result).error());
    if (!ended) co_return Item{event->run, **std::move(event->result)};
  }
  co_return std::nullopt;
}

rt::Task<Result<std::optional<PromptRuns::Item>>> PromptRuns::NextOfOne() {
  if (runs_.front().stopped) co_return std::nullopt;
  CO_TRY_ASSIGN(auto item, co_await runs_.front().generation->Next());
  if (!item) co_return std::nullopt;
  co_return Item{0, *std::move(item)};
}

rt::Task<void> PromptRuns::Pump(size_t index) {
  while (true) {
    auto result = co_await runs_[index].generation->Next();
    const bool ended = !result || !*result;
    const Status pushed = co_await events_->Push({index, std::move(result)});
    if (ended || !pushed) co_return;
  }
}

void PromptRuns::Stop(size_t index) {
  runs_[index].stopped = true;
  runs_[index].cancel.Cancel({Code::kCancelled, "the answer is complete", {}});
}

}  // namespace tandem::frontend

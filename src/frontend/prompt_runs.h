// The prompts of one request, running at once, read as one sequence of items. Loop thread only.
#ifndef TANDEM_FRONTEND_PROMPT_RUNS_H_
#define TANDEM_FRONTEND_PROMPT_RUNS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "router/generation.h"
#include "router/router.h"
#include "rt/cancel.h"
#include "rt/channel.h"
#include "rt/scope.h"
#include "wire/messages.h"

namespace tandem::frontend {

class PromptRuns {
 public:
  // The router outlives the runs.
  PromptRuns(router::Router& router, MonoTime deadline, rt::CancelToken cancel);
  // Ends what still runs, on all workers.
  ~PromptRuns();

  // Before the first Next.
  void Add(wire::GenerateRequest request);
  size_t size() const { return runs_.size(); }
  const router::Generation& run(size_t index) const { return *runs_[index].generation; }

  struct Item {
    size_t run = 0;
    wire::GenerateItem item;
  };
  // The next item of any run; nullopt when all have ended. The first error ends it.
  rt::Task<Result<std::optional<Item>>> Next();

  // The run is not needed further: its workers are told, its items are dropped.
  void Stop(size_t index);

 private:
  struct Run {
    std::unique_ptr<router::Generation> generation;
    rt::CancelSource cancel;
    bool stopped = false;
  };
  struct Event {
    size_t run = 0;
    Result<std::optional<wire::GenerateItem>> result;
  };

  rt::Task<Result<std::optional<Item>>> NextOfOne();
  rt::Task<Result<std::optional<Item>>> NextOfMany();
  rt::Task<void> Pump(size_t index);

  router::Router& router_;
  const MonoTime deadline_;
  const rt::CancelToken cancel_;
  std::vector<Run> runs_;
  size_t left_ = 0;  // pumps that have not ended
  // With several prompts each has a pump that fills the channel; one prompt needs neither.
  std::optional<rt::Channel<Event>> events_;
  std::optional<rt::TaskScope> scope_;
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_PROMPT_RUNS_H_

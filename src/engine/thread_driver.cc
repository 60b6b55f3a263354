// The driver of an engine that computes: a thread of its own owns the scheduler and runs the steps.
// The loop hands commands in through a mailbox and gets one delivery per step back.
#include <atomic>
#include <mutex>
#include <set>
#include <variant>

#include "base/check.h"
#include "base/log.h"
#include "base/team.h"
#include "engine/driver.h"
#include "rt/mailbox.h"
#include "rt/thread.h"

namespace tandem::engine {
namespace {

struct CancelCommand {
  RequestKey key;
};
struct PullCommand {
  PullId pull;
  Result<PullDone> result;
};
struct EndAllCommand {
  Error reason;
};
struct StopCommand {};
using Command =
    std::variant<Scheduler::Submission, CancelCommand, PullCommand, EndAllCommand, StopCommand>;

// Which requests the running step still serves. The loop removes, the scheduler thread begins and
// ends steps; when nobody is left the step's abort flag goes up.
class LiveStep {
 public:
  void Begin(const StepPlan& plan) {
    const std::lock_guard lock(mutex_);
    live_.clear();
    for (const StepRow& row : plan.rows)
      if (const RequestKey key = row.sequence->request->key; !cancelled_.contains(key))
        live_.insert(key);
    running_ = true;
    abort_.store(live_.empty() || all_cancelled_, std::memory_order_relaxed);
  }
  void End() {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  // A cancel that is on its way to the scheduler.
  void Cancel(RequestKey key) {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(key);
    live_.erase(key);
    if (running_ && live_.empty()) abort_.store(true, std::memory_order_relaxed);
  }
  void CancelAll() {
    const std::lock_guard lock(mutex_);
    all_cancelled_ = true;
    abort_.store(true, std::memory_order_relaxed);
  }
  // The scheduler has carried it out.
  void Forget(RequestKey key) {
    const std::lock_guard lock(mutex_);
    cancelled_.erase(key);
  }
  void ForgetAll() {
    const std::lock_guard lock(mutex_);
    all_cancelled_ = false;
  }
  const std::atomic<bool>& abort() const { return abort_; }

 private:
  std::mutex mutex_;
  std::set<RequestKey> live_;
  std::set<RequestKey> cancelled_;
  bool all_cancelled_ = false;
  bool running_ = false;
  std::atomic<bool> abort_ = false;
};

class ThreadDriver final : public Driver {
 public:
  ThreadDriver(rt::Runtime& runtime, StepMetrics metrics, std::unique_ptr<Scheduler> scheduler,
               Executor& executor, Deliver deliver)
      : runtime_(runtime),
        metrics_(metrics),
        scheduler_(std::move(scheduler)),
        executor_(executor),
        deliver_(std::move(deliver)),
        alive_(std::make_shared<bool>(true)),
        stats_(StatsOf(*scheduler_)),
        thread_("scheduler", [this] { Loop(); }) {}

  ~ThreadDriver() override {
    live_.CancelAll();
    mailbox_.Put(StopCommand{});
    thread_.Join();
  }

  void Submit(Scheduler::Submission submission) override { mailbox_.Put(std::move(submission)); }
  void Cancel(RequestKey key) override {
    live_.Cancel(key);
    mailbox_.Put(CancelCommand{key});
  }
  void PullFinished(PullId pull, Result<PullDone> result) override {
    mailbox_.Put(PullCommand{pull, std::move(result)});
  }
  void EndAll(Error reason) override {
    live_.CancelAll();
    mailbox_.Put(EndAllCommand{std::move(reason)});
  }
  void Wake() override { mailbox_.Wake(); }

  EngineStats Stats() const override {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

  rt::Task<void> Stop() override {
    mailbox_.Put(StopCommand{});
    // Deliveries were posted before the thread ended, so they ran before this continues.
    co_await runtime_.RunBlocking([this] { thread_.Join(); });
  }

 private:
  void Loop() {
    FlushDenormalsOnThisThread();
    bool idle = true;
    while (true) {
      const Duration patience = idle ? Patience() : Duration::zero();
      for (Command& command : mailbox_.TakeAll(patience))
        if (!Apply(command)) return Publish();
      const StepPlan& plan = scheduler_->Schedule(runtime_.Now());
      Publish();
      idle = plan.empty();
      if (!idle) RunStep(plan);
    }
  }

  Duration Patience() const {
    const MonoTime wake = scheduler_->NextWake();
    return wake == kNever ? Duration::max() : wake - runtime_.Now();
  }

  void RunStep(const StepPlan& plan) {
    live_.Begin(plan);
    const MonoTime start = runtime_.Now();
    Result<StepResult> result = executor_.Run(plan, live_.abort());
    const MonoTime end = runtime_.Now();
    live_.End();
    metrics_.Observe(plan, end - start, result && result->aborted);
    if (!result) LOG_ERROR("a step failed and its requests end: {}", result.error().message);
    scheduler_->Complete(std::move(result), end);
  }

  // False for the last command.
  bool Apply(Command& command) {
    if (auto* submission = std::get_if<Scheduler::Submission>(&command)) {
      scheduler_->Submit(std::move(*submission));
    } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
      scheduler_->Cancel(cancel->key);
      live_.Forget(cancel->key);
    } else if (auto* pull = std::get_if<PullCommand>(&command)) {
      scheduler_->PullFinished(pull->pull, std::move(pull->result));
    } else if (const auto* end = std::get_if<EndAllCommand>(&command)) {
      scheduler_->EndAll(end->reason);
      live_.ForgetAll();
    } else {
      return false;
    }
    return true;
  }

  void Publish() {
    {
      const std::lock_guard lock(stats_mutex_);
      stats_ = StatsOf(*scheduler_);
    }
    Delivery delivery{.outputs = scheduler_->TakeOutputs(),
                      .transfers = scheduler_->TakeTransfers()};
    if (delivery.empty()) return;
    runtime_.Post(
        [this, alive = std::weak_ptr<bool>(alive_), delivery = std::move(delivery)]() mutable {
          if (!alive.expired()) deliver_(std::move(delivery));
        });
  }

  rt::Runtime& runtime_;
  StepMetrics metrics_;
  const std::unique_ptr<Scheduler> scheduler_;  // the thread's
  Executor& executor_;                          // the thread's
  const Deliver deliver_;
  // Shared with posted closures only, which may outlive the driver and then do nothing.
  std::shared_ptr<bool> alive_;
  LiveStep live_;
  rt::Mailbox<Command> mailbox_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  rt::Thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Driver> MakeThreadDriver(rt::Runtime& runtime, StepMetrics metrics,
                                         std::unique_ptr<Scheduler> scheduler, Executor& executor,
                                         Driver::Deliver deliver) {
  return std::make_unique<ThreadDriver>(runtime, metrics, std::move(scheduler), executor,
                                        std::move(deliver));
}

}  // namespace tandem::engine

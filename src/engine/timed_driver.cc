// The driver of the mock engine: everything on the loop, steps take the time that the executor's
// model says, by the runtime's clock.
#include "base/check.h"
#include "engine/driver.h"

namespace tandem::engine {
namespace {

class TimedDriver final : public Driver {
 public:
  TimedDriver(rt::Runtime& runtime, StepMetrics metrics, std::unique_ptr<Scheduler> scheduler,
              Executor& executor, Deliver deliver)
      : runtime_(runtime),
        metrics_(metrics),
        scheduler_(std::move(scheduler)),
        executor_(executor),
        deliver_(std::move(deliver)),
        alive_(std::make_shared<bool>(true)) {}

  void Submit(Scheduler::Submission submission) override {
    scheduler_->Submit(std::move(submission));
    PumpSoon();
  }

  void Cancel(RequestKey key) override {
    live_in_step_.erase(key);
    scheduler_->Cancel(key);
    // As with the threaded driver: a step for nobody ends early.
    if (scheduler_->Stepping() && live_in_step_.empty()) FinishStep(/*abort=*/true);
    PumpSoon();
  }

  void PullFinished(PullId pull, Result<PullDone> result) override {
    scheduler_->PullFinished(pull, std::move(result));
    PumpSoon();
  }

  void EndAll(Error reason) override {
    scheduler_->EndAll(reason);
    live_in_step_.clear();
    if (scheduler_->Stepping()) FinishStep(/*abort=*/true);
    PumpSoon();
  }

  void Wake() override { PumpSoon(); }

  EngineStats Stats() const override { return StatsOf(*scheduler_); }

  rt::Task<void> Stop() override {
    stopped_ = true;
    timer_.reset();
    Flush();
    co_return;
  }

 private:
  // Later, so that a burst of commands makes one plan and no caller is called back from its call.
  void PumpSoon() {
    if (pump_posted_ || stopped_) return;
    pump_posted_ = true;
    runtime_.Post([this, alive = std::weak_ptr<bool>(alive_)] {
      if (alive.expired()) return;
      pump_posted_ = false;
      Pump();
    });
  }

  void Pump() {
    if (stopped_) return;
    if (!scheduler_->Stepping()) {
      const StepPlan& plan = scheduler_->Schedule(runtime_.Now());
      if (!plan.empty()) {
        plan_ = &plan;
        live_in_step_.clear();
        for (const StepRow& row : plan.rows) live_in_step_.insert(row.sequence->request->key);
        timer_ = runtime_.RunAt(runtime_.Now() + executor_.ModelledTime(plan),
                                [this] { FinishStep(/*abort=*/false); });
      } else if (const MonoTime wake = scheduler_->NextWake(); wake != kNever) {
        timer_ = runtime_.RunAt(wake, [this] { PumpSoon(); });
      }
    }
    Flush();
  }

  void FinishStep(bool abort) {
    CHECK(plan_ != nullptr);
    if (abort) timer_.reset();  // else this is its callback
    const StepPlan& plan = *std::exchange(plan_, nullptr);
    metrics_.Observe(plan, executor_.ModelledTime(plan), abort);
    const std::atomic<bool> abort_flag = abort;
    scheduler_->Complete(executor_.Run(plan, abort_flag), runtime_.Now());
    PumpSoon();
  }

  void Flush() {
    Delivery delivery{.outputs = scheduler_->TakeOutputs(),
                      .transfers = scheduler_->TakeTransfers()};
    if (!delivery.empty()) deliver_(std::move(delivery));
  }

  rt::Runtime& runtime_;
  StepMetrics metrics_;
  const std::unique_ptr<Scheduler> scheduler_;
  Executor& executor_;
  const Deliver deliver_;
  const StepPlan* plan_ = nullptr;  // the one under way
  std::set<RequestKey> live_in_step_;
  bool pump_posted_ = false;
  bool stopped_ = false;
  // Shared with posted closures only, which may outlive the driver and then do nothing.
  std::shared_ptr<bool> alive_;
  std::unique_ptr<rt::Timer> timer_;
};

}  // namespace

std::unique_ptr<Driver> MakeTimedDriver(rt::Runtime& runtime, StepMetrics metrics,
                                        std::unique_ptr<Scheduler> scheduler, Executor& executor,
                                        Driver::Deliver deliver) {
  return std::make_unique<TimedDriver>(runtime, metrics, std::move(scheduler), executor,
                                       std::move(deliver));
}

}  // namespace tandem::engine

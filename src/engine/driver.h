// What turns the scheduler's plans into steps in time. Two drivers: one with a thread of its own
// for an executor that computes (thread_driver.cc), one on the loop's timers for an executor that
// only models time, which therefore also runs under the simulated runtime (timed_driver.cc).
#ifndef TANDEM_ENGINE_DRIVER_H_
#define TANDEM_ENGINE_DRIVER_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/step.h"
#include "rt/runtime.h"

namespace tandem::engine {

// What the scheduler produced since the last delivery.
struct Delivery {
  std::vector<Output> outputs;
  std::vector<TransferCommand> transfers;
  bool empty() const { return outputs.empty() && transfers.empty(); }
};

// Recorded for each step.
struct StepMetrics {
  StepMetrics(Metrics& metrics, const Labels& labels);
  void Observe(const StepPlan& plan, Duration took, bool aborted);

  Histogram& seconds;
  Histogram& rows;
  Histogram& tokens;
  Counter& aborted_steps;
};

// All calls on the loop's thread unless said otherwise. Commands are carried out in order.
class Driver {
 public:
  using Deliver = std::function<void(Delivery)>;  // on the loop, once per step at most

  virtual ~Driver() = default;
  virtual void Submit(Scheduler::Submission submission) = 0;
  // Nothing is delivered for the request once it is carried out. A running step in which no live
  // request is left stops at the executor's next look at its abort flag.
  virtual void Cancel(RequestKey key) = 0;
  virtual void PullFinished(PullId pull, Result<PullDone> result) = 0;
  virtual void EndAll(Error reason) = 0;
  // Leases ended: blocks may be free. Any thread.
  virtual void Wake() = 0;
  // The scheduler's part of the statistics. Any thread.
  virtual EngineStats Stats() const = 0;
  // After EndAll and the last PullFinished. Ends the thread or the timers; everything was delivered
  // when it returns.
  virtual rt::Task<void> Stop() = 0;
};

// `scheduler` belongs to the driver from here on; the executor is used by it alone.
std::unique_ptr<Driver> MakeThreadDriver(rt::Runtime& runtime, StepMetrics metrics,
                                         std::unique_ptr<Scheduler> scheduler, Executor& executor,
                                         Driver::Deliver deliver);
std::unique_ptr<Driver> MakeTimedDriver(rt::Runtime& runtime, StepMetrics metrics,
                                        std::unique_ptr<Scheduler> scheduler, Executor& executor,
                                        Driver::Deliver deliver);

// What both share: the numbers of a scheduler.
EngineStats StatsOf(const Scheduler& scheduler);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_DRIVER_H_

// A timer whose time is set anew with every message and rarely comes: setting it costs nothing as
// long as it moves later. Loop thread only.
#ifndef TANDEM_RT_MOVING_TIMER_H_
#define TANDEM_RT_MOVING_TIMER_H_

#include <functional>
#include <memory>
#include <utility>

#include "base/time.h"
#include "rt/runtime.h"

namespace tandem::rt {

class MovingTimer {
 public:
  MovingTimer(Runtime& runtime, std::function<void()> work)
      : runtime_(runtime), work_(std::move(work)) {}
  MovingTimer(const MovingTimer&) = delete;
  MovingTimer& operator=(const MovingTimer&) = delete;

  // Runs `work` once at `when`, unless it is set again or stopped before.
  void Set(MonoTime when) {
    due_ = when;
    if (when < armed_) Arm();
  }
  void SetIn(Duration time) { Set(runtime_.Now() + time); }
  void Stop() { due_ = kNever; }

 private:
  void Arm() {
    armed_ = due_;
    timer_ = runtime_.RunAt(due_, [this] { OnTime(); });
  }
  void OnTime() {
    armed_ = kNever;
    if (due_ == kNever) return;
    if (runtime_.Now() < due_) return Arm();
    due_ = kNever;
    work_();
  }

  Runtime& runtime_;
  const std::function<void()> work_;
  MonoTime due_ = kNever;
  MonoTime armed_ = kNever;  // no later than due_
  std::unique_ptr<Timer> timer_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_MOVING_TIMER_H_

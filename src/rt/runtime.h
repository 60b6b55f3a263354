// The runtime: one loop with a clock, timers, randomness and a network. Everything that waits,
// waits here, so that the same code runs against real time and sockets (rt/real_runtime.h) or
// against simulated ones from a seed (rt/sim_runtime.h).
#ifndef TANDEM_RT_RUNTIME_H_
#define TANDEM_RT_RUNTIME_H_

#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "rt/cancel.h"
#include "rt/task.h"

namespace tandem::rt {

class Network;

// Stops its timer when destroyed. Belongs to the loop's thread.
class Timer {
 public:
  virtual ~Timer() = default;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual MonoTime Now() const = 0;
  virtual int64_t UnixMillis() const = 0;
  // 64 random bits; in simulation from the seed.
  virtual uint64_t Random() = 0;
  virtual Network& network() = 0;

  // Runs `work` on the loop's thread, later, in order of posting. From any thread.
  virtual void Post(std::function<void()> work) = 0;
  // Resumes a suspended coroutine from the loop, later. Loop thread only. Awaitables use this
  // instead of resuming inside the call that wakes them: no re-entrancy, no deep stacks.
  virtual void Schedule(std::coroutine_handle<> coroutine) = 0;
  // Takes back a Schedule whose coroutine is destroyed before it ran. Only rt's awaitables need it.
  virtual void Unschedule(std::coroutine_handle<> coroutine) = 0;
  // Runs `work` once at `when` unless the handle is destroyed first. Loop thread only.
  [[nodiscard]] virtual std::unique_ptr<Timer> RunAt(MonoTime when, std::function<void()> work) = 0;
  // Runs `work` on a helper thread (inline in simulation), then continues on the loop. For
  // copies and file reads that would hold the loop up for more than about a millisecond.
  virtual Task<void> RunBlocking(std::function<void()> work) = 0;

  // Starts a task that nobody awaits, in a later turn of the loop. Loop thread only (or before the
  // loop runs). The runtime owns it; tasks that are still suspended when the runtime is destroyed
  // are destroyed with it.
  virtual void Spawn(Task<void> task) = 0;

  // Waits until `when`, or less if cancelled (the reason is the error).
  Task<Status> SleepUntil(MonoTime when, CancelToken cancel = {});
  Task<Status> Sleep(Duration d, CancelToken cancel = {}) { return SleepUntil(Now() + d, cancel); }
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_RUNTIME_H_

// The runtime of a process: real time, TCP and Unix sockets, one loop on the thread that calls Run.
#ifndef TANDEM_RT_REAL_RUNTIME_H_
#define TANDEM_RT_REAL_RUNTIME_H_

#include <functional>
#include <memory>

#include "rt/runtime.h"

namespace tandem::rt {

struct RealRuntimeOptions {
  int helper_threads = 2;  // for RunBlocking and name look-ups; started on first use
};

// Build tasks (Spawn) before Run or from the loop. Post and Stop are safe from any thread.
class RealRuntime final : public Runtime {
 public:
  explicit RealRuntime(RealRuntimeOptions options = {});
  // Destroys the tasks that are left, then waits for helper threads. After Run has returned.
  ~RealRuntime() override;

  // Runs the loop until Stop. Can be called again afterwards.
  void Run();
  // Spawns the task and runs the loop until it has ended, or until Stop: then false.
  bool RunTask(Task<void> task);
  void Stop();

  // Calls `callback` on the loop with each SIGTERM and SIGINT that the process receives, instead
  // of ending it. One runtime of a process may do this. SIGPIPE is ignored by every runtime.
  void HandleSignals(std::function<void(int)> callback);

  MonoTime Now() const override;
  int64_t UnixMillis() const override;
  uint64_t Random() override;
  Network& network() override;
  void Post(std::function<void()> work) override;
  void Schedule(std::coroutine_handle<> coroutine) override;
  void Unschedule(std::coroutine_handle<> coroutine) override;
  [[nodiscard]] std::unique_ptr<Timer> RunAt(MonoTime when, std::function<void()> work) override;
  Task<void> RunBlocking(std::function<void()> work) override;
  void Spawn(Task<void> task) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_REAL_RUNTIME_H_

// The simulated runtime: virtual time, a network with faults, everything in one thread and decided
// by a seed. A SimHost stands for one process; killing it ends its tasks, timers and connections.
// The same seed and the same calls give the same TraceHash.
#ifndef TANDEM_RT_SIM_RUNTIME_H_
#define TANDEM_RT_SIM_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rt/runtime.h"

namespace tandem::rt {

namespace internal {
class SimCore;
}

// One direction between two hosts.
struct SimLink {
  Duration latency = std::chrono::microseconds(100);
  Duration jitter{0};  // added at random, 0..jitter; bytes stay in order
  double bytes_per_second = 1e9;
  size_t max_read = 0;  // > 0: a Read returns 1..max_read bytes, at random
};

enum class KillMode {
  kProcess,  // the kernel closes its sockets: peers read what was sent, then end of stream
  kMachine,  // power cut: peers hear nothing
};

// One simulated process. Owned by its SimRuntime, also after it was killed.
class SimHost : public Runtime {
 public:
  ~SimHost() override;
  const std::string& name() const { return name_; }
  bool Alive() const { return alive_; }
  // Destroys the host's tasks and closes its sockets; its timers and posted work never run. Not
  // from a task of this host. Objects built on it may be destroyed afterwards as usual.
  void Kill(KillMode mode = KillMode::kProcess);

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

 protected:
  friend class internal::SimCore;
  SimHost(internal::SimCore& core, std::string name, uint32_t id);
  void DestroyTasks();
  uint32_t id() const { return id_; }
  internal::SimCore& core_;

 private:
  struct State;
  std::string name_;
  uint32_t id_;
  bool alive_ = true;
  std::unique_ptr<State> state_;
};

namespace internal {
// Holds the core so that it is built before, and destroyed after, the host that SimRuntime is.
struct SimCoreHolder {
  explicit SimCoreHolder(uint64_t seed);
  ~SimCoreHolder();
  std::unique_ptr<SimCore> core;
};
}  // namespace internal

// The whole simulation, and itself its first host, "main". All hosts share one address space:
// 127.0.0.1, 0.0.0.0, localhost and any other name listen and connect alike; ports are unique.
class SimRuntime final : private internal::SimCoreHolder, public SimHost {
 public:
  explicit SimRuntime(uint64_t seed = 1);
  ~SimRuntime() override;

  // A new process. Faults are set by name, so a restart under the same name keeps them.
  SimHost& AddHost(std::string name);

  // Runs until nothing is left to do, or `limit` of virtual time has passed. True if idle.
  bool RunUntilIdle(Duration limit = std::chrono::hours(1));
  void RunFor(Duration d);
  // Runs until `done()`; false if nothing is left to do or `limit` has passed before that.
  bool RunUntil(const std::function<bool()>& done, Duration limit = std::chrono::hours(1));
  // Spawns the task on this host and runs until it has ended.
  bool RunTask(Task<void> task, Duration limit = std::chrono::hours(1));

  void SetDefaultLink(SimLink link);
  void SetLink(std::string_view from, std::string_view to, SimLink link);  // one direction
  // Both directions: bytes wait (as TCP would retransmit) until Heal; connects time out.
  void Partition(std::string_view a, std::string_view b);
  void Heal(std::string_view a, std::string_view b);
  void HealAll();
  // Breaks every connection between the two; both ends see kConnectionLost.
  void ResetConnections(std::string_view a, std::string_view b);

  size_t OpenConnections() const;
  // Depends on every event so far: what ran when, and every byte delivered.
  uint64_t TraceHash() const;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_SIM_RUNTIME_H_

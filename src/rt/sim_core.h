// Internal to rt: the event loop and the clock that all hosts of a simulation share.
#ifndef TANDEM_RT_SIM_CORE_H_
#define TANDEM_RT_SIM_CORE_H_

#include <algorithm>
#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rt/sim_network.h"
#include "rt/sim_runtime.h"
#include "rt/timer_queue.h"

namespace tandem::rt::internal {

class SimCore {
 public:
  explicit SimCore(uint64_t seed) : random_(seed) {}

  MonoTime now() const { return now_; }
  uint64_t Random();
  uint64_t RandomBelow(uint64_t bound) { return Random() % bound; }
  // Folds a fact about this run into the trace hash.
  void Trace(uint64_t fact);
  void TraceBytes(std::span<const std::byte> bytes);
  uint64_t trace_hash() const { return hash_; }

  SimHost& AddHost(std::string name);
  uint32_t NextHostId() { return next_host_id_++; }
  // Destroys the tasks of all added hosts while everything that they refer to still stands.
  void DestroyTasks();

  // What a host that has died in the meantime would have run is dropped.
  void Push(SimHost& host, std::coroutine_handle<> coroutine) {
    ready_.push_back({&host, coroutine, {}});
  }
  void Push(SimHost& host, std::function<void()> work) {
    ready_.push_back({&host, {}, std::move(work)});
  }
  void Remove(std::coroutine_handle<> coroutine);
  std::unique_ptr<Timer> RunAt(MonoTime when, std::function<void()> work) {
    return timers_.Add(when, std::move(work));
  }

  // Runs the next thing, moving the clock if nothing is ready. False, and the clock untouched, if
  // nothing is left to do at or before `limit`.
  bool Step(MonoTime limit);
  bool Idle() const { return ready_.empty() && timers_.Earliest() == kNever; }
  void AdvanceTo(MonoTime when) { now_ = std::max(now_, when); }

  SimFabric& fabric() { return fabric_; }

 private:
  struct Item {
    SimHost* host;
    std::coroutine_handle<> coroutine;
    std::function<void()> work;
  };

  uint64_t random_;
  uint64_t hash_ = 0;
  MonoTime now_{std::chrono::seconds(1)};
  uint32_t next_host_id_ = 0;
  std::deque<Item> ready_;
  TimerQueue timers_;
  SimFabric fabric_{*this};
  std::vector<std::unique_ptr<SimHost>> hosts_;
};

}  // namespace tandem::rt::internal

#endif  // TANDEM_RT_SIM_CORE_H_

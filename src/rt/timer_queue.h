// The timers of one loop, by time and then by order of creation. Both runtimes drive one.
#ifndef TANDEM_RT_TIMER_QUEUE_H_
#define TANDEM_RT_TIMER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/time.h"
#include "rt/runtime.h"

namespace tandem::rt {

class TimerQueue {
 public:
  // The handle may outlive the queue; dropping it takes the timer out.
  std::unique_ptr<Timer> Add(MonoTime when, std::function<void()> work);
  // kNever if empty.
  MonoTime Earliest() const;
  // Takes out the earliest timer that is due at `now`.
  std::optional<std::function<void()>> PopDue(MonoTime now);

 private:
  using Key = std::pair<MonoTime, uint64_t>;
  struct State {
    uint64_t next_id = 1;
    std::map<Key, std::function<void()>> timers;
  };
  class Handle;
  // Shared: handles and the queue end in no fixed order.
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_TIMER_QUEUE_H_

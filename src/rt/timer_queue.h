// The timers of one loop, by time and then by order of creation. Both runtimes drive one.
#ifndef TANDEM_RT_TIMER_QUEUE_H_
#define TANDEM_RT_TIMER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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
  class Handle;
  struct Heap;
  // Shared: handles and the queue end in no fixed order.
  std::shared_ptr<Heap> heap_ = MakeHeap();
  static std::shared_ptr<Heap> MakeHeap();
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_TIMER_QUEUE_H_

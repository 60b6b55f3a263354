// Event: set once, stays set. Signal: a wake-up that one Wait consumes. Loop thread only.
#ifndef TANDEM_RT_EVENT_H_
#define TANDEM_RT_EVENT_H_

#include "rt/wait_list.h"

namespace tandem::rt {

// Any number of tasks wait until it is set; afterwards waits end at once.
class Event {
 public:
  explicit Event(Runtime& runtime) : waiters_(runtime) {}
  void Set() {
    set_ = true;
    waiters_.WakeAll();
  }
  bool IsSet() const { return set_; }
  Task<Status> Wait(CancelToken cancel = {});

 private:
  bool set_ = false;
  WaitList waiters_;
};

// Notify lets one Wait pass, now or later; notifications that nobody has consumed are one.
class Signal {
 public:
  explicit Signal(Runtime& runtime) : waiters_(runtime) {}
  void Notify() {
    set_ = true;
    waiters_.WakeOne();
  }
  Task<Status> Wait(CancelToken cancel = {});

 private:
  bool set_ = false;
  WaitList waiters_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_EVENT_H_

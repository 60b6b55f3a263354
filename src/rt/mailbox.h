// Mailbox<T>: what a loop hands to a thread that works in rounds. The bound is the sender's: it
// counts what it has under way (each item belongs to a request it admitted).
#ifndef TANDEM_RT_MAILBOX_H_
#define TANDEM_RT_MAILBOX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/time.h"

namespace tandem::rt {

template <class T>
class Mailbox {
 public:
  // Any thread.
  void Put(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    news_.notify_one();
  }
  // Ends a wait without an item; remembered if nobody waits. Any thread.
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    news_.notify_one();
  }
  // Everything that has come, in order; waits up to `patience` for the first item or a Wake.
  std::vector<T> TakeAll(Duration patience) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return woken_ || !items_.empty(); };
    // Longer waits overflow some clocks, and a needless round once an hour costs nothing.
    if (patience > Duration::zero())
      news_.wait_for(lock, std::min<Duration>(patience, std::chrono::hours(1)), ready);
    woken_ = false;
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<T> items_;
  bool woken_ = false;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_MAILBOX_H_

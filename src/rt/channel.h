// Channel<T>: a bounded queue between tasks of one loop. Other threads Post to the loop.
#ifndef TANDEM_RT_CHANNEL_H_
#define TANDEM_RT_CHANNEL_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "rt/wait_list.h"

namespace tandem::rt {

template <class T>
class Channel {
 public:
  Channel(Runtime& runtime, size_t capacity)
      : capacity_(capacity), readers_(runtime), writers_(runtime) {
    CHECK(capacity > 0);
  }

  // False, and `value` untouched, if full or closed.
  bool TryPush(T&& value) {
    if (closed_ || queue_.size() >= capacity_) return false;
    queue_.push_back(std::move(value));
    readers_.WakeOne();
    return true;
  }

  // Waits while full. kCancelled if closed, the token's reason if cancelled; the value is then
  // lost.
  Task<Status> Push(T value, CancelToken cancel = {}) {
    while (!closed_ && queue_.size() >= capacity_) CO_TRY(co_await writers_.Wait(cancel));
    if (closed_) co_return Err(Code::kCancelled, "the channel is closed");
    queue_.push_back(std::move(value));
    readers_.WakeOne();
    co_return Status();
  }

  // Waits while empty. nullopt once closed and drained; an error only if cancelled.
  Task<Result<std::optional<T>>> Pop(CancelToken cancel = {}) {
    while (queue_.empty() && !closed_) CO_TRY(co_await readers_.Wait(cancel));
    co_return TryPop();
  }

  std::optional<T> TryPop() {
    if (queue_.empty()) return std::nullopt;
    std::optional<T> front(std::move(queue_.front()));
    queue_.pop_front();
    writers_.WakeOne();
    return front;
  }

  // No more values come in; those inside can still be taken.
  void Close() {
    closed_ = true;
    readers_.WakeAll();
    writers_.WakeAll();
  }

  bool Closed() const { return closed_; }
  size_t Size() const { return queue_.size(); }
  size_t Capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  std::deque<T> queue_;
  bool closed_ = false;
  WaitList readers_;
  WaitList writers_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_CHANNEL_H_

// OneShot<T>: a value that is set once and taken by one waiter, e.g. the reply to a request.
// Loop thread only; other threads Post the Set.
#ifndef TANDEM_RT_PROMISE_H_
#define TANDEM_RT_PROMISE_H_

#include <optional>
#include <utility>

#include "rt/wait_list.h"

namespace tandem::rt {

template <class T>
class OneShot {
 public:
  explicit OneShot(Runtime& runtime) : waiters_(runtime) {}

  // The first Set counts; later ones are ignored and answer false.
  bool Set(T value) {
    if (set_) return false;
    set_ = true;
    value_.emplace(std::move(value));
    waiters_.WakeOne();
    return true;
  }
  bool IsSet() const { return set_; }

  // Takes the value once it is there; an error only if cancelled first. Call once.
  Task<Result<T>> Wait(CancelToken cancel = {}) {
    while (!value_.has_value()) CO_TRY(co_await waiters_.Wait(cancel));
    std::optional<T> taken = std::exchange(value_, std::nullopt);
    co_return *std::move(taken);
  }

 private:
  bool set_ = false;
  std::optional<T> value_;
  WaitList waiters_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_PROMISE_H_

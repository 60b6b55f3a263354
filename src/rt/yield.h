// co_await Yield(runtime): lets everything else that is ready run first.
#ifndef TANDEM_RT_YIELD_H_
#define TANDEM_RT_YIELD_H_

#include <coroutine>

#include "rt/runtime.h"

namespace tandem::rt {

class [[nodiscard]] Yield {
 public:
  explicit Yield(Runtime& runtime) : runtime_(runtime) {}
  ~Yield() {
    if (handle_) runtime_.Unschedule(handle_);
  }
  Yield(const Yield&) = delete;
  Yield& operator=(const Yield&) = delete;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    runtime_.Schedule(handle);
  }
  void await_resume() { handle_ = {}; }

 private:
  Runtime& runtime_;
  std::coroutine_handle<> handle_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_YIELD_H_

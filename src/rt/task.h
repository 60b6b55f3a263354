// Task<T>: a lazy coroutine that runs on one loop. It starts when awaited, has one awaiter, and
// owns its frame: destroying a Task destroys a coroutine that has not finished, and with it
// everything that it holds. Not thread-safe; a task stays on the loop it was started on.
//
// Rules (they prevent the classic lifetime bugs): parameters by value, or references whose owner
// outlives the task; no capturing lambda coroutines that outlive their closure; no lock held
// across co_await.
#ifndef TANDEM_RT_TASK_H_
#define TANDEM_RT_TASK_H_

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tandem::rt {

template <class T>
class [[nodiscard]] Task;

namespace internal {

// Where control goes when a task ends: to its awaiter, without growing the stack.
struct FinalAwaiter {
  bool await_ready() noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
    const auto awaiter = done.promise().awaiter;
    return awaiter ? awaiter : std::noop_coroutine();
  }
  void await_resume() noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> awaiter;
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  // Errors are values; an exception here is out-of-memory or a bug.
  void unhandled_exception() noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
};

}  // namespace internal

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      Destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() { Destroy(); }

  bool Valid() const { return static_cast<bool>(handle_); }

  auto operator co_await() && {
    struct Awaiter {
      Handle handle;
      bool await_ready() { return handle.done(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) {
        handle.promise().awaiter = awaiter;
        return handle;
      }
      T await_resume() {
        if constexpr (!std::is_void_v<T>) {
          CHECK(handle.promise().value.has_value());
          return *std::move(handle.promise().value);
        }
      }
    };
    CHECK(handle_);
    return Awaiter{handle_};
  }

 private:
  void Destroy() {
    if (handle_) handle_.destroy();
    handle_ = {};
  }
  Handle handle_;
};

template <class T>
Task<T> internal::Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> internal::Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace tandem::rt

#endif  // TANDEM_RT_TASK_H_

#include "rt/task_set.h"

#include <exception>
#include <utility>

#include "rt/yield.h"

namespace tandem::rt {

// A coroutine that belongs to the set and frees itself at its end.
struct TaskSet::Root {
  struct promise_type : Node {
    TaskSet* set;
    promise_type(TaskSet* owner, Runtime*, const Task<void>&) : set(owner) {
      previous = owner->roots_.previous;
      next = &owner->roots_;
      previous->next = next->previous = this;
      ++owner->size_;
    }
    ~promise_type() {
      previous->next = next;
      next->previous = previous;
      if (--set->size_ == 0 && set->on_empty_) set->on_empty_();
    }
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;

    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

TaskSet::Root TaskSet::RunRoot(TaskSet*, Runtime* runtime, Task<void> task) {
  // A local, so that the task is gone before the promise reports that the set is empty.
  Task<void> local = std::move(task);
  co_await Yield(*runtime);
  co_await std::move(local);
}

void TaskSet::Start(Runtime& runtime, Task<void> task) { RunRoot(this, &runtime, std::move(task)); }

void TaskSet::DestroyAll() {
  while (roots_.next != &roots_) {
    auto& promise = static_cast<Root::promise_type&>(*roots_.next);
    std::coroutine_handle<Root::promise_type>::from_promise(promise).destroy();
  }
}

}  // namespace tandem::rt

// TaskSet: root tasks that nobody awaits, owned as a group. Runtimes and TaskScope build on it.
#ifndef TANDEM_RT_TASK_SET_H_
#define TANDEM_RT_TASK_SET_H_

#include <cstddef>
#include <functional>

#include "rt/runtime.h"
#include "rt/task.h"

namespace tandem::rt {

class TaskSet {
 public:
  TaskSet() = default;
  ~TaskSet() { DestroyAll(); }
  TaskSet(const TaskSet&) = delete;
  TaskSet& operator=(const TaskSet&) = delete;

  // Runs `task` from a later turn of `runtime`'s loop; its frame is freed when it ends.
  void Start(Runtime& runtime, Task<void> task);
  // Destroys the tasks that have not ended. Never call it from one of them.
  void DestroyAll();
  size_t Size() const { return size_; }
  // Called whenever the last task has ended.
  void OnEmpty(std::function<void()> callback) { on_empty_ = std::move(callback); }

 private:
  struct Root;
  static Root RunRoot(TaskSet* set, Runtime* runtime, Task<void> task);

  struct Node {
    Node* previous = this;
    Node* next = this;
  };
  Node roots_;  // ring through the promises of the root coroutines, oldest first
  size_t size_ = 0;
  std::function<void()> on_empty_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_TASK_SET_H_

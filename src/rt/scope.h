// TaskScope: the tasks of one component. They share a cancel token, can be joined, and never
// outlive the scope. Loop thread only.
#ifndef TANDEM_RT_SCOPE_H_
#define TANDEM_RT_SCOPE_H_

#include "rt/cancel.h"
#include "rt/task_set.h"
#include "rt/wait_list.h"

namespace tandem::rt {

// Declare it as the last member: it is destroyed first, and its tasks with it, while everything
// that they refer to still stands. Orderly shutdown is Cancel, then co_await Join; destroying the
// scope earlier (a killed simulated process) destroys the tasks where they are suspended.
class TaskScope {
 public:
  explicit TaskScope(Runtime& runtime, const CancelToken& parent = {});

  // Starts a task in a later turn of the loop. After Cancel too: tasks see the cancelled token.
  void Spawn(Task<void> task);
  // Fires on Cancel or when the parent token does.
  CancelToken Token() const { return cancel_.Token(); }
  void Cancel(Error reason = {Code::kCancelled, "shutting down", {}});
  // Waits until no task is left. Not from a task of the scope.
  Task<void> Join();
  // Destroys the tasks that are left where they are suspended. Not from a task of the scope.
  void Break() { tasks_.DestroyAll(); }
  size_t Size() const { return tasks_.Size(); }
  Runtime& runtime() const { return runtime_; }

 private:
  Runtime& runtime_;
  CancelSource cancel_;
  WaitList empty_;
  TaskSet tasks_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_SCOPE_H_

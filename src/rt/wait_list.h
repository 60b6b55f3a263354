// Coroutines that wait for something, in order of arrival. The base of every primitive in rt:
// an owner keeps a WaitList, tasks co_await list.Wait(cancel) in a loop around their condition.
// Loop thread only.
#ifndef TANDEM_RT_WAIT_LIST_H_
#define TANDEM_RT_WAIT_LIST_H_

#include <coroutine>

#include "base/result.h"
#include "rt/cancel.h"
#include "rt/runtime.h"

namespace tandem::rt {

class WaitList {
 public:
  class Awaiter;

  explicit WaitList(Runtime& runtime) : runtime_(&runtime) {}
  ~WaitList();
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  // Suspends until woken (OK) or cancelled (the token's reason). A wake can be overtaken by another
  // task, so test the condition again. The list may end before its waiters; they then never resume.
  Awaiter Wait(CancelToken cancel = {});
  // Wakes the one that waits longest, if any. If it is destroyed before it runs, the next is woken.
  void WakeOne();
  void WakeAll();
  bool Empty() const { return head_ == nullptr; }
  Runtime& runtime() const { return *runtime_; }

 private:
  void Append(Awaiter* awaiter);
  void Remove(Awaiter* awaiter);

  Runtime* runtime_;
  Awaiter* head_ = nullptr;
  Awaiter* tail_ = nullptr;
};

// Lives in the waiting coroutine's frame, so destroying the coroutine ends the wait safely.
class [[nodiscard]] WaitList::Awaiter {
 public:
  Awaiter(WaitList& list, CancelToken cancel) : list_(&list), cancel_(std::move(cancel)) {}
  ~Awaiter();
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;

  bool await_ready() const { return cancel_.Cancelled(); }
  void await_suspend(std::coroutine_handle<> handle);
  Status await_resume();

 private:
  friend class WaitList;
  enum class State { kIdle, kWaiting, kWoken, kCancelled };
  void Wake(State state);

  WaitList* list_;
  CancelToken cancel_;
  CancelHook hook_;
  Runtime* runtime_ = nullptr;
  std::coroutine_handle<> handle_;
  State state_ = State::kIdle;
  Awaiter* previous_ = nullptr;
  Awaiter* next_ = nullptr;
};

inline WaitList::Awaiter WaitList::Wait(CancelToken cancel) {
  return Awaiter(*this, std::move(cancel));
}

}  // namespace tandem::rt

#endif  // TANDEM_RT_WAIT_LIST_H_

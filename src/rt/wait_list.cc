#include "rt/wait_list.h"

#include <utility>

namespace tandem::rt {

WaitList::~WaitList() {
  for (Awaiter* a = head_; a != nullptr;) {
    Awaiter* next = std::exchange(a->next_, nullptr);
    a->previous_ = nullptr;
    a->list_ = nullptr;
    a = next;
  }
}

void WaitList::Append(Awaiter* awaiter) {
  awaiter->previous_ = tail_;
  (tail_ != nullptr ? tail_->next_ : head_) = awaiter;
  tail_ = awaiter;
}

void WaitList::Remove(Awaiter* awaiter) {
  (awaiter->previous_ != nullptr ? awaiter->previous_->next_ : head_) = awaiter->next_;
  (awaiter->next_ != nullptr ? awaiter->next_->previous_ : tail_) = awaiter->previous_;
  awaiter->previous_ = awaiter->next_ = nullptr;
}

void WaitList::WakeOne() {
  // Those already woken stay in the list until they run; they are few.
  for (Awaiter* a = head_; a != nullptr; a = a->next_) {
    if (a->state_ != Awaiter::State::kWaiting) continue;
    a->Wake(Awaiter::State::kWoken);
    return;
  }
}

void WaitList::WakeAll() {
  for (Awaiter* a = head_; a != nullptr; a = a->next_) {
    if (a->state_ == Awaiter::State::kWaiting) a->Wake(Awaiter::State::kWoken);
  }
}

void WaitList::Awaiter::Wake(State state) {
  state_ = state;
  runtime_->Schedule(handle_);
}

WaitList::Awaiter::~Awaiter() {
  if (state_ == State::kIdle) return;
  hook_.Reset();
  WaitList* const list = std::exchange(list_, nullptr);
  if (list != nullptr) list->Remove(this);
  if (state_ == State::kWaiting) return;
  runtime_->Unschedule(handle_);
  if (state_ == State::kWoken && list != nullptr) list->WakeOne();
}

void WaitList::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  runtime_ = list_->runtime_;
  state_ = State::kWaiting;
  list_->Append(this);
  hook_.Set(cancel_, [this] {
    if (state_ == State::kWaiting) Wake(State::kCancelled);
  });
}

Status WaitList::Awaiter::await_resume() {
  if (state_ == State::kIdle) return std::unexpected(cancel_.Reason());
  const State state = std::exchange(state_, State::kIdle);
  hook_.Reset();
  if (list_ != nullptr) list_->Remove(this);
  if (state == State::kCancelled) return std::unexpected(cancel_.Reason());
  return Status();
}

}  // namespace tandem::rt

#include "rt/cancel.h"

#include <utility>

#include "base/check.h"

namespace tandem::rt {

namespace internal {

struct CancelState {
  bool cancelled = false;
  Error reason;
  CancelLink hooks;  // ring, in order of registration; each keeps this state alive

  void Append(CancelHook& hook) {
    hook.previous = hooks.previous;
    hook.next = &hooks;
    hook.previous->next = hook.next->previous = &hook;
  }
  CancelHook& First() { return static_cast<CancelHook&>(*hooks.next); }
  static void TakeOut(CancelHook& hook) {
    hook.previous->next = hook.next;
    hook.next->previous = hook.previous;
    hook.previous = hook.next = &hook;
  }
  // Takes the state by value: a callback may destroy the source.
  static void Fire(std::shared_ptr<CancelState> state, Error reason);
};

void CancelState::Fire(std::shared_ptr<CancelState> state, Error reason) {
  if (state->cancelled) return;
  state->cancelled = true;
  state->reason = std::move(reason);
  // A callback may unregister others, so each is taken out just before it runs.
  while (state->hooks.next != &state->hooks) {
    CancelHook& hook = state->First();
    TakeOut(hook);
    const auto callback = std::move(hook.callback_);
    if (hook.child_ != nullptr)
      Fire(std::move(hook.child_), state->reason);
    else
      callback();
  }
}

}  // namespace internal

void CancelHook::Set(const CancelToken& token, std::function<void()> callback) {
  Reset();
  if (token.state_ == nullptr) return;
  if (token.state_->cancelled) {
    callback();
    return;
  }
  state_ = token.state_;
  callback_ = std::move(callback);
  state_->Append(*this);
}

void CancelHook::Reset() {
  if (state_ == nullptr) return;
  internal::CancelState::TakeOut(*this);
  // What the callback holds is let go when it is out of the ring: its captures may reach back.
  const auto state = std::move(state_);
  const auto callback = std::exchange(callback_, nullptr);
  const auto child = std::move(child_);
}

CancelToken::CancelToken(std::shared_ptr<internal::CancelState> state) : state_(std::move(state)) {}

bool CancelToken::Cancelled() const { return state_ != nullptr && state_->cancelled; }

Error CancelToken::Reason() const {
  CHECK(Cancelled());
  return state_->reason;
}

CancelRegistration CancelToken::OnCancel(std::function<void()> callback) const {
  if (state_ == nullptr) return {};
  if (state_->cancelled) {
    callback();
    return {};
  }
  auto hook = std::make_unique<CancelHook>();
  hook->Set(*this, std::move(callback));
  return CancelRegistration(std::move(hook));
}

CancelSource::CancelSource() : state_(std::make_shared<internal::CancelState>()) {}

CancelSource::CancelSource(const CancelToken& parent) : CancelSource() {
  if (parent.state_ == nullptr) return;
  if (parent.state_->cancelled) {
    internal::CancelState::Fire(state_, parent.state_->reason);
    return;
  }
  parent_.hook_ = std::make_unique<CancelHook>();
  parent_.hook_->state_ = parent.state_;
  parent_.hook_->child_ = state_;
  parent.state_->Append(*parent_.hook_);
}

CancelToken CancelSource::Token() const { return CancelToken(state_); }

void CancelSource::Cancel(Error reason) { internal::CancelState::Fire(state_, std::move(reason)); }

}  // namespace tandem::rt

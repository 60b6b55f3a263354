#include "rt/cancel.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace tandem::rt {

namespace internal {

struct CancelState {
  bool cancelled = false;
  Error reason;
  uint64_t next_id = 1;
  std::map<uint64_t, std::function<void()>> callbacks;  // in order of registration
};

}  // namespace internal

namespace {

// Takes the state by value: a callback may destroy the source.
void Fire(std::shared_ptr<internal::CancelState> state, Error reason) {
  if (state->cancelled) return;
  state->cancelled = true;
  state->reason = std::move(reason);
  // A callback may unregister others, so each is taken out just before it runs.
  while (!state->callbacks.empty()) {
    const auto callback = std::move(state->callbacks.extract(state->callbacks.begin()).mapped());
    callback();
  }
}

}  // namespace

CancelRegistration::CancelRegistration(std::shared_ptr<internal::CancelState> state, uint64_t id)
    : state_(std::move(state)), id_(id) {}

CancelRegistration::CancelRegistration(CancelRegistration&& other) noexcept
    : state_(std::move(other.state_)), id_(std::exchange(other.id_, 0)) {}

CancelRegistration& CancelRegistration::operator=(CancelRegistration&& other) noexcept {
  if (this != &other) {
    Reset();
    state_ = std::move(other.state_);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

CancelRegistration::~CancelRegistration() { Reset(); }

void CancelRegistration::Reset() {
  if (state_ == nullptr) return;
  // The callback is destroyed after it left the map: its captures may reach back into the map.
  const auto removed = state_->callbacks.extract(id_);
  state_.reset();
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
  const uint64_t id = state_->next_id++;
  state_->callbacks.emplace(id, std::move(callback));
  return CancelRegistration(state_, id);
}

CancelSource::CancelSource() : state_(std::make_shared<internal::CancelState>()) {}

CancelSource::CancelSource(const CancelToken& parent) : CancelSource() {
  parent_ = parent.OnCancel([state = state_, parent] { Fire(state, parent.Reason()); });
}

CancelToken CancelSource::Token() const { return CancelToken(state_); }

void CancelSource::Cancel(Error reason) { Fire(state_, std::move(reason)); }

}  // namespace tandem::rt

#include "rt/timer_queue.h"

namespace tandem::rt {

class TimerQueue::Handle final : public Timer {
 public:
  Handle(std::shared_ptr<State> state, Key key) : state_(std::move(state)), key_(key) {}
  // The callback dies after it left the map: its captures may own other timers.
  ~Handle() override { const auto removed = state_->timers.extract(key_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  std::shared_ptr<State> state_;
  Key key_;
};

std::unique_ptr<Timer> TimerQueue::Add(MonoTime when, std::function<void()> work) {
  const Key key(when, state_->next_id++);
  state_->timers.emplace(key, std::move(work));
  return std::make_unique<Handle>(state_, key);
}

MonoTime TimerQueue::Earliest() const {
  return state_->timers.empty() ? kNever : state_->timers.begin()->first.first;
}

std::optional<std::function<void()>> TimerQueue::PopDue(MonoTime now) {
  if (state_->timers.empty() || Earliest() > now) return std::nullopt;
  return std::move(state_->timers.extract(state_->timers.begin()).mapped());
}

}  // namespace tandem::rt

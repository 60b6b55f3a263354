// Cancellation: a source, tokens that watch it, and callbacks that run once when it fires.
// Single-threaded: source, tokens and callbacks belong to one loop (other threads Post to it).
#ifndef TANDEM_RT_CANCEL_H_
#define TANDEM_RT_CANCEL_H_

#include <functional>
#include <memory>

#include "base/result.h"

namespace tandem::rt {

namespace internal {
struct CancelState;
}

// Unregisters its callback when destroyed. Movable. Safe to outlive the source.
class CancelRegistration {
 public:
  CancelRegistration() = default;
  CancelRegistration(CancelRegistration&&) noexcept;
  CancelRegistration& operator=(CancelRegistration&&) noexcept;
  ~CancelRegistration();

 private:
  friend class CancelToken;
  CancelRegistration(std::shared_ptr<internal::CancelState> state, uint64_t id);
  void Reset();
  std::shared_ptr<internal::CancelState> state_;
  uint64_t id_ = 0;
};

// A copyable view of a source. A default token is never cancelled.
class CancelToken {
 public:
  CancelToken() = default;
  bool Cancelled() const;
  // Why: kCancelled or kDeadlineExceeded, with a message. Only after Cancelled().
  Error Reason() const;
  // Runs `callback` once when the source fires; at once if it already has.
  CancelRegistration OnCancel(std::function<void()> callback) const;

 private:
  friend class CancelSource;
  explicit CancelToken(std::shared_ptr<internal::CancelState> state);
  // Shared: tokens, registrations and the source end in no fixed order.
  std::shared_ptr<internal::CancelState> state_;
};

class CancelSource {
 public:
  CancelSource();
  // A child fires when `parent` does, or by itself.
  explicit CancelSource(const CancelToken& parent);
  CancelSource(CancelSource&&) noexcept = default;
  CancelSource& operator=(CancelSource&&) noexcept = default;

  CancelToken Token() const;
  // Fires once; later calls do nothing. Callbacks run in this call, in order of registration.
  void Cancel(Error reason = {Code::kCancelled, "cancelled", {}});

 private:
  std::shared_ptr<internal::CancelState> state_;
  CancelRegistration parent_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_CANCEL_H_

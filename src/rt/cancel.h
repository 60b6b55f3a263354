// Cancellation: a source, tokens that watch it, and callbacks that run once when it fires.
// Single-threaded: source, tokens and callbacks belong to one loop (other threads Post to it).
#ifndef TANDEM_RT_CANCEL_H_
#define TANDEM_RT_CANCEL_H_

#include <functional>
#include <memory>

#include "base/result.h"

namespace tandem::rt {

class CancelToken;
class CancelSource;

namespace internal {

struct CancelState;

// Place in a source's ring of callbacks; alone while it is in none.
struct CancelLink {
  CancelLink* previous = this;
  CancelLink* next = this;
};

}  // namespace internal

// A callback at a source, for as long as it lives where it is. Safe to outlive the source.
class CancelHook : private internal::CancelLink {
 public:
  CancelHook() = default;
  ~CancelHook() { Reset(); }
  CancelHook(const CancelHook&) = delete;
  CancelHook& operator=(const CancelHook&) = delete;

  // Runs `callback` once when the token's source fires; at once if it already has. Replaces what
  // was set before.
  void Set(const CancelToken& token, std::function<void()> callback);
  void Reset();

 private:
  friend class CancelSource;
  friend struct internal::CancelState;
  std::shared_ptr<internal::CancelState> state_;
  // One of the two.
  std::function<void()> callback_;
  std::shared_ptr<internal::CancelState> child_;
};

// A movable CancelHook. Unregisters its callback when destroyed.
class CancelRegistration {
 public:
  CancelRegistration() = default;

 private:
  friend class CancelToken;
  friend class CancelSource;
  explicit CancelRegistration(std::unique_ptr<CancelHook> hook) : hook_(std::move(hook)) {}
  std::unique_ptr<CancelHook> hook_;
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
  friend class CancelHook;
  explicit CancelToken(std::shared_ptr<internal::CancelState> state);
  // Shared: tokens, hooks and the source end in no fixed order.
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

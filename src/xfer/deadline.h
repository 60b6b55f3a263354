// A cancel token that also fires at a point in time.
#ifndef TANDEM_XFER_DEADLINE_H_
#define TANDEM_XFER_DEADLINE_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "rt/cancel.h"
#include "rt/runtime.h"

namespace tandem::xfer {

// Fires when `parent` does, or at `when` with kDeadlineExceeded or the given code. kNever: no
// timer. Lives in one coroutine's frame, on the loop.
class DeadlineScope {
 public:
  DeadlineScope(rt::Runtime& runtime, const rt::CancelToken& parent, MonoTime when,
                Error reason = {Code::kDeadlineExceeded, "the deadline passed", {}})
      : source_(parent), reason_(std::move(reason)) {
    if (when != kNever) timer_ = runtime.RunAt(when, [this] { source_.Cancel(reason_); });
  }
  DeadlineScope(const DeadlineScope&) = delete;
  DeadlineScope& operator=(const DeadlineScope&) = delete;
  rt::CancelToken Token() const { return source_.Token(); }

 private:
  rt::CancelSource source_;
  Error reason_;
  std::unique_ptr<rt::Timer> timer_;
};

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_DEADLINE_H_

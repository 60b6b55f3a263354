#include "rt/runtime.h"

#include "rt/event.h"

namespace tandem::rt {

Task<Status> Runtime::SleepUntil(MonoTime when, CancelToken cancel) {
  if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
  Event over(*this);
  const std::unique_ptr<Timer> timer = RunAt(when, [&over] { over.Set(); });
  co_return co_await over.Wait(std::move(cancel));
}

}  // namespace tandem::rt

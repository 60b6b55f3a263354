#include "rt/event.h"

namespace tandem::rt {

Task<Status> Event::Wait(CancelToken cancel) {
  while (!set_) CO_TRY(co_await waiters_.Wait(cancel));
  co_return Status();
}

Task<Status> Signal::Wait(CancelToken cancel) {
  while (!set_) CO_TRY(co_await waiters_.Wait(cancel));
  set_ = false;
  co_return Status();
}

}  // namespace tandem::rt

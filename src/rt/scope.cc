#include "rt/scope.h"

#include <utility>

namespace tandem::rt {

TaskScope::TaskScope(Runtime& runtime, const CancelToken& parent)
    : runtime_(runtime), cancel_(parent), empty_(runtime) {
  tasks_.OnEmpty([this] { empty_.WakeAll(); });
}

void TaskScope::Spawn(Task<void> task) { tasks_.Start(runtime_, std::move(task)); }

void TaskScope::Cancel(Error reason) { cancel_.Cancel(std::move(reason)); }

Task<void> TaskScope::Join() {
  while (tasks_.Size() > 0) co_await empty_.Wait();
}

}  // namespace tandem::rt

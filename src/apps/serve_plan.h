// Which children `serve` (and `run`) starts, and with which arguments. Pure.
#ifndef TANDEM_APPS_SERVE_PLAN_H_
#define TANDEM_APPS_SERVE_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "apps/child_process.h"
#include "apps/options.h"
#include "base/result.h"
#include "hub/resolve.h"

namespace tandem::apps {

struct PlannedChild {
  std::string name;  // "frontend", "worker", "prefill-1", "decode-1"
  ChildSpec spec;
};

struct ServePlan {
  std::vector<PlannedChild> children;  // the frontend first
  std::string shape;                   // "1 aggregated worker", "2 prefill + 1 decode workers"
};

// `discovery_folder` is private to this supervisor. `model`: what MODEL was found to be; workers
// get its path and need not look for it again.
Result<ServePlan> MakeServePlan(const ParsedOptions& parsed, const std::string& discovery_folder,
                                const std::optional<hub::ResolvedModel>& model);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_SERVE_PLAN_H_

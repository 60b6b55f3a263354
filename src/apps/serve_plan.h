// Which children `serve` (and `run`) starts, and with which arguments. Pure.
#ifndef TANDEM_APPS_SERVE_PLAN_H_
#define TANDEM_APPS_SERVE_PLAN_H_

#include <string>
#include <vector>

#include "apps/child_process.h"
#include "apps/options.h"
#include "base/result.h"

namespace tandem::apps {

struct PlannedChild {
  std::string name;  // "frontend", "worker", "prefill-1", "decode-1"
  ChildSpec spec;
};

struct ServePlan {
  std::vector<PlannedChild> children;  // the frontend first
  std::string shape;                   // "1 aggregated worker", "2 prefill + 1 decode workers"
};

// `discovery_folder` is private to this supervisor.
Result<ServePlan> MakeServePlan(const ParsedOptions& parsed, const std::string& discovery_folder);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_SERVE_PLAN_H_

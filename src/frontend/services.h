// What the handlers of one frontend share.
#ifndef TANDEM_FRONTEND_SERVICES_H_
#define TANDEM_FRONTEND_SERVICES_H_

#include <cstddef>

#include "frontend/assets.h"
#include "frontend/frontend_metrics.h"
#include "frontend/options.h"
#include "router/router.h"
#include "rt/runtime.h"

namespace tandem::frontend {

struct Services {
  rt::Runtime& runtime;
  router::Router& router;
  AssetCache& assets;
  FrontendMetrics& metrics;
  const FrontendOptions& options;
  size_t inflight = 0;  // generate requests under way; at most options.max_inflight
};

// Seconds since 1970 of the local wall clock, for templates that print the date.
int64_t LocalSeconds(const rt::Runtime& runtime);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_SERVICES_H_

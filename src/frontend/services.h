// What the handlers of one frontend share.
#ifndef TANDEM_FRONTEND_SERVICES_H_
#define TANDEM_FRONTEND_SERVICES_H_

#include <cstddef>

#include "frontend/assets.h"
#include "frontend/frontend_metrics.h"
#include "frontend/options.h"
#include "frontend/prompt.h"
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

// How this frontend renders chat templates, now.
RenderSettings RenderSettingsOf(const Services& services);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_SERVICES_H_

// One frontend: the HTTP server, the router and the models' tokenizers and templates.
#ifndef TANDEM_FRONTEND_FRONTEND_H_
#define TANDEM_FRONTEND_FRONTEND_H_

#include <functional>

#include "base/metrics.h"
#include "base/result.h"
#include "cluster/discovery.h"
#include "frontend/options.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/stream.h"

namespace tandem::frontend {

// What the caller lends to a frontend. All of it outlives the task.
struct FrontendEnvironment {
  rt::Runtime& runtime;
  cluster::Discovery& discovery;
  Metrics& metrics;
  // Called once on the loop when the port is open.
  std::function<void(const rt::Address&)> on_ready;
};

// Checks the options alone; errors name the flag.
Status Validate(const FrontendOptions& options);

// Serves until `stop` fires, then takes no new connections, gives requests under way `drain` to
// end, cancels the rest and returns. An error means that it could not start (port, flags).
rt::Task<Status> RunFrontend(FrontendEnvironment environment, FrontendOptions options,
                             rt::CancelToken stop, Duration drain = std::chrono::seconds(5));

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_FRONTEND_H_

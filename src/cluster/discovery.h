// Discovery: which instances are alive. Backends: file (a folder that processes of one host share,
// no server) and mem (one process, tests and simulation).
#ifndef TANDEM_CLUSTER_DISCOVERY_H_
#define TANDEM_CLUSTER_DISCOVERY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "rt/runtime.h"
#include "wire/messages.h"

namespace tandem::cluster {

// Keeps one instance registered: renews its lease until destroyed, re-registers by itself after
// the store was lost. Destroying it unregisters.
class Registration {
 public:
  virtual ~Registration() = default;
};

// Stops the watch when destroyed.
class Watch {
 public:
  virtual ~Watch() = default;
};

class Discovery {
 public:
  virtual ~Discovery() = default;
  virtual Result<std::unique_ptr<Registration>> Register(const wire::Instance& instance) = 0;
  // Calls `on_change` on the loop with all live instances, at once and after each change, ordered
  // by instance id. A reader expires what it saw unchanged for one TTL by its own monotonic
  // clock. Losing the store keeps the last known instances (traffic goes on) and logs once.
  using OnChange = std::function<void(const std::vector<wire::Instance>&)>;
  [[nodiscard]] virtual std::unique_ptr<Watch> WatchInstances(std::string ns,
                                                              OnChange on_change) = 0;
};

}  // namespace tandem::cluster

#endif  // TANDEM_CLUSTER_DISCOVERY_H_

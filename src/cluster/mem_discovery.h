// Discovery inside one process: a hub that all parts of a test, a simulation or a single-process
// server share. One thread; under simulation each part brings its own host.
#ifndef TANDEM_CLUSTER_MEM_DISCOVERY_H_
#define TANDEM_CLUSTER_MEM_DISCOVERY_H_

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "cluster/discovery.h"

namespace tandem::cluster {

// The store. An instance is renewed from its owner's runtime each third of `ttl`; one whose owner
// was killed vanishes after `ttl`.
class MemHub {
 public:
  explicit MemHub(rt::Runtime& runtime, Duration ttl = std::chrono::seconds(10));
  ~MemHub();
  MemHub(const MemHub&) = delete;
  MemHub& operator=(const MemHub&) = delete;

  // `owner` is the process that registers and watches: its callbacks run there.
  std::unique_ptr<Discovery> Open(rt::Runtime& owner);
  size_t size() const;  // registered instances, expired ones excluded

 private:
  friend class MemDiscovery;
  struct State;
  // Shared with registrations and watches, which may end after the hub when a test tears down.
  std::shared_ptr<State> state_;
};

}  // namespace tandem::cluster

#endif  // TANDEM_CLUSTER_MEM_DISCOVERY_H_

// Internal to rt: simulated listeners, connections and the faults between hosts.
#ifndef TANDEM_RT_SIM_NETWORK_H_
#define TANDEM_RT_SIM_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "rt/sim_runtime.h"
#include "rt/stream.h"

namespace tandem::rt::internal {

class SimConnection;
struct SimListenerState;

class SimFabric {
 public:
  explicit SimFabric(SimCore& core) : core_(core) {}
  SimCore& core() { return core_; }

  Result<std::unique_ptr<Listener>> Listen(SimHost& host, const Address& address);
  Task<Result<std::unique_ptr<Stream>>> Connect(SimHost& host, Address address, Duration timeout,
                                                CancelToken cancel);

  void SetDefaultLink(const SimLink& link) { default_link_ = link; }
  void SetLink(std::string_view from, std::string_view to, const SimLink& link);
  const SimLink& LinkOf(const SimHost& from, const SimHost& to) const;
  // Latency plus a random part of the jitter.
  Duration DelayOf(const SimLink& link);

  void Partition(std::string_view a, std::string_view b);
  void Heal(std::string_view a, std::string_view b);
  void HealAll();
  bool Partitioned(const SimHost& a, const SimHost& b) const;
  void ResetConnections(std::string_view a, std::string_view b);
  void HostDied(SimHost& host, KillMode mode);

  size_t OpenConnections() const { return connections_.size(); }

 private:
  friend class SimConnection;
  friend class SimListener;
  using Pair = std::pair<std::string, std::string>;
  static Pair Unordered(std::string_view a, std::string_view b);
  std::shared_ptr<SimListenerState> FindListener(const std::string& key) const;
  void KickAll();

  SimCore& core_;
  SimLink default_link_;
  std::map<Pair, SimLink> links_;
  std::set<Pair> partitions_;
  // A listener of a machine that lost power stays, so that connects to it time out.
  std::map<std::string, std::shared_ptr<SimListenerState>> listeners_;
  std::map<uint64_t, SimConnection*> connections_;  // by id, so that every walk is in one order
  uint64_t next_connection_id_ = 1;
  uint16_t next_port_ = 20000;
};

}  // namespace tandem::rt::internal

#endif  // TANDEM_RT_SIM_NETWORK_H_

#include "rt/sim_network.h"

#include <utility>

#include "rt/sim_connection.h"
#include "rt/sim_core.h"

namespace tandem::rt::internal {
namespace {

constexpr size_t kBacklog = 128;
constexpr Duration kConnectRetry = std::chrono::milliseconds(100);

std::string KeyOf(const Address& address) {
  return address.IsUnix() ? address.host : fmt::format("tcp:{}", address.port);
}

}  // namespace

// Shared by the listener, the fabric and tasks inside Accept and Connect.
struct SimListenerState {
  SimListenerState(SimHost& owner, Address where)
      : host(&owner), address(std::move(where)), arrivals(owner) {}
  SimHost* host;
  Address address;
  bool closed = false;
  std::deque<std::unique_ptr<Stream>> queue;
  WaitList arrivals;
};

class SimListener final : public Listener {
 public:
  SimListener(SimFabric& fabric, std::shared_ptr<SimListenerState> state)
      : fabric_(fabric), state_(std::move(state)) {}
  ~SimListener() override { SimListener::Close(); }

  Task<Result<std::unique_ptr<Stream>>> Accept(CancelToken cancel) override {
    return AcceptFrom(state_, std::move(cancel));
  }
  Address LocalAddress() const override { return state_->address; }
  void Close() override {
    if (std::exchange(state_->closed, true)) return;
    const auto found = fabric_.listeners_.find(KeyOf(state_->address));
    if (found != fabric_.listeners_.end() && found->second == state_)
      fabric_.listeners_.erase(found);
    state_->queue.clear();
    state_->arrivals.WakeAll();
  }

 private:
  static Task<Result<std::unique_ptr<Stream>>> AcceptFrom(std::shared_ptr<SimListenerState> state,
                                                          CancelToken cancel) {
    while (!state->closed) {
      if (!state->queue.empty()) {
        auto stream = std::move(state->queue.front());
        state->queue.pop_front();
        co_return stream;
      }
      CO_TRY(co_await state->arrivals.Wait(cancel));
    }
    co_return Err(Code::kCancelled, "the listener is closed");
  }

  SimFabric& fabric_;
  std::shared_ptr<SimListenerState> state_;
};

Result<std::unique_ptr<Listener>> SimFabric::Listen(SimHost& host, const Address& address) {
  Address bound = address;
  if (!bound.IsUnix() && bound.port == 0) {
    while (listeners_.contains(fmt::format("tcp:{}", next_port_))) ++next_port_;
    bound.port = next_port_++;
  }
  const std::string key = KeyOf(bound);
  const auto taken = FindListener(key);
  if (taken != nullptr && taken->host->Alive()) {
    return Err(Code::kUnavailable, "cannot listen on {}: the address is in use by {}",
               bound.ToString(), taken->host->name());
  }
  auto state = std::make_shared<SimListenerState>(host, bound);
  listeners_[key] = state;
  return std::make_unique<SimListener>(*this, std::move(state));
}

std::shared_ptr<SimListenerState> SimFabric::FindListener(const std::string& key) const {
  const auto found = listeners_.find(key);
  return found == listeners_.end() ? nullptr : found->second;
}

Task<Result<std::unique_ptr<Stream>>> SimFabric::Connect(SimHost& host, Address address,
                                                         Duration timeout, CancelToken cancel) {
  const MonoTime give_up = host.Now() + timeout;
  const std::string key = KeyOf(address);
  while (host.Now() < give_up) {
    auto target = FindListener(key);
    const bool reachable =
        target == nullptr || (target->host->Alive() && !Partitioned(host, *target->host) &&
                              target->queue.size() < kBacklog);
    if (!reachable) {
      CO_TRY(co_await host.SleepUntil(std::min(give_up, host.Now() + kConnectRetry), cancel));
      continue;
    }
    const SimLink link = target == nullptr ? default_link_ : LinkOf(host, *target->host);
    CO_TRY(co_await host.Sleep(DelayOf(link), cancel));
    target = FindListener(key);
    if (target == nullptr) {
      co_return Err(Code::kUnavailable, "cannot connect to {}: nobody listens there",
                    address.ToString());
    }
    if (!target->host->Alive() || Partitioned(host, *target->host)) continue;
    const auto connection =
        std::make_shared<SimConnection>(*this, host, *target->host, address.ToString());
    auto stream = MakeSimStream(connection, 0);
    target->queue.push_back(MakeSimStream(connection, 1));
    target->arrivals.WakeOne();
    CO_TRY(co_await host.Sleep(DelayOf(link), cancel));
    co_return stream;
  }
  co_return Err(Code::kUnavailable, "no connection to {} within {} ms", address.ToString(),
                ToMillis(timeout));
}

SimFabric::Pair SimFabric::Unordered(std::string_view a, std::string_view b) {
  return a < b ? Pair(a, b) : Pair(b, a);
}

void SimFabric::SetLink(std::string_view from, std::string_view to, const SimLink& link) {
  links_[Pair(from, to)] = link;
}

const SimLink& SimFabric::LinkOf(const SimHost& from, const SimHost& to) const {
  if (links_.empty()) return default_link_;
  const auto found = links_.find(Pair(from.name(), to.name()));
  return found == links_.end() ? default_link_ : found->second;
}

Duration SimFabric::DelayOf(const SimLink& link) {
  if (link.jitter.count() <= 0) return link.latency;
  const uint64_t extra = core_.RandomBelow(static_cast<uint64_t>(link.jitter.count()) + 1);
  return link.latency + Duration(static_cast<int64_t>(extra));
}

void SimFabric::Partition(std::string_view a, std::string_view b) {
  partitions_.insert(Unordered(a, b));
}

void SimFabric::Heal(std::string_view a, std::string_view b) {
  partitions_.erase(Unordered(a, b));
  KickAll();
}

void SimFabric::HealAll() {
  partitions_.clear();
  KickAll();
}

bool SimFabric::Partitioned(const SimHost& a, const SimHost& b) const {
  return !partitions_.empty() && partitions_.contains(Unordered(a.name(), b.name()));
}

void SimFabric::KickAll() {
  for (const auto& [id, connection] : connections_) connection->Kick();
}

void SimFabric::ResetConnections(std::string_view a, std::string_view b) {
  // Callbacks of a reset may end other connections, so walk over a copy of the ids.
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_)
    if (connection->Between(a, b)) ids.push_back(id);
  for (const uint64_t id : ids) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) found->second->Reset();
  }
}

void SimFabric::HostDied(SimHost& host, KillMode mode) {
  for (const auto& [id, connection] : connections_) connection->HostDied(host, mode);
  if (mode == KillMode::kMachine) return;
  std::vector<std::unique_ptr<Stream>> unaccepted;
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    if (it->second->host != &host) {
      ++it;
      continue;
    }
    for (auto& stream : it->second->queue) unaccepted.push_back(std::move(stream));
    it->second->queue.clear();
    it = listeners_.erase(it);
  }
}

}  // namespace tandem::rt::internal

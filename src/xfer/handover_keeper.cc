#include "xfer/handover_keeper.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/log.h"

namespace tandem::xfer {

HandoverKeeper::HandoverKeeper(rt::Runtime& runtime, KvReader& reader, Metrics& metrics)
    : runtime_(runtime),
      reader_(reader),
      failures_(metrics.GetCounter("tandem_kv_heartbeat_failures_total",
                                   "heartbeats that a prefill worker did not answer")),
      scope_(runtime) {}

HandoverKeeper::~HandoverKeeper() { CHECK(holds() == 0); }

HandoverKeeper::Hold::Hold(Hold&& other) noexcept
    : keeper_(std::exchange(other.keeper_, nullptr)),
      owner_(std::move(other.owner_)),
      id_(other.id_),
      give_up_(other.give_up_) {}

HandoverKeeper::Hold& HandoverKeeper::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    if (keeper_ != nullptr) keeper_->Drop(owner_, id_);
    keeper_ = std::exchange(other.keeper_, nullptr);
    owner_ = std::move(other.owner_);
    id_ = other.id_;
    give_up_ = other.give_up_;
  }
  return *this;
}

HandoverKeeper::Hold::~Hold() {
  if (keeper_ != nullptr) keeper_->Drop(owner_, id_);
}

HandoverKeeper::Hold HandoverKeeper::Keep(const TransferParams& params) {
  // From outside: without bounds a tiny value would beat without pause, a huge one never end.
  const Duration lease = std::clamp<Duration>(params.lease_duration, std::chrono::milliseconds(60),
                                              std::chrono::hours(1));
  Hold hold;
  hold.keeper_ = this;
  hold.owner_ = fmt::format("{} {}:{} {:016x}", params.engine_id, params.host, params.port,
                            params.incarnation);
  hold.id_ = next_id_++;
  hold.give_up_ = runtime_.Now() + kPatienceLeaseTimes * lease;
  const bool first = !owners_.contains(hold.owner_);
  Owner& owner = owners_[hold.owner_];
  owner.holds.emplace(hold.id_, Held{params.lease, hold.give_up_});
  if (first) {
    owner.source = LeaseSource::Of(params);
    owner.interval = lease / 6;
    scope_.Spawn(Beat(hold.owner_));
  }
  return hold;
}

void HandoverKeeper::Drop(const std::string& owner, uint64_t id) {
  // The owner's entry stays until its task sees that nothing is held any more.
  owners_.at(owner).holds.erase(id);
}

rt::Task<void> HandoverKeeper::Beat(std::string owner) {
  while (true) {
    // Looked up each time: the map changes while this waits.
    Owner& entry = owners_.at(owner);
    if (entry.holds.empty()) break;
    std::vector<kv::LeaseId> leases;
    const MonoTime now = runtime_.Now();
    for (const auto& [id, held] : entry.holds) {
      if (held.give_up > now) leases.push_back(held.lease);
    }
    const Duration interval = entry.interval;
    if (!leases.empty()) {
      const auto held = co_await reader_.Heartbeat(entry.source, std::move(leases), scope_.Token());
      if (!held.has_value() && !scope_.Token().Cancelled()) {
        failures_.Add();
        LOG_WARN_ONCE(
            "a KV lease could not be renewed (tandem_kv_heartbeat_failures_total counts "
            "them): {}",
            held.error().message);
      }
    }
    if (!(co_await runtime_.Sleep(interval, scope_.Token())).has_value()) break;
  }
  if (const auto it = owners_.find(owner); it != owners_.end() && it->second.holds.empty()) {
    owners_.erase(it);
  }
}

rt::Task<void> HandoverKeeper::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
}

size_t HandoverKeeper::holds() const {
  size_t n = 0;
  for (const auto& [key, owner] : owners_) n += owner.holds.size();
  return n;
}

}  // namespace tandem::xfer

#include "kv/lease_table.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::kv {
namespace {

// A bijection that scatters consecutive numbers (the finaliser of SplitMix64): ids of one life are
// unique, and knowing one does not reveal its neighbours at a glance.
uint64_t Scatter(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

LeaseTable::LeaseTable(const Options& options) : options_(options) {
  CHECK(options.incarnation != 0 && options.lease > Duration::zero());
}

uint64_t LeaseTable::NewId() {
  uint64_t id = 0;
  while (id == 0) id = Scatter(options_.incarnation + ++counter_);
  return id;
}

void LeaseTable::NotifyFreed(std::unique_lock<std::mutex>& lock) {
  const bool news = std::exchange(freed_news_, false);
  lock.unlock();
  if (news && on_freed_) on_freed_();
}

Result<LeaseTable::Granted> LeaseTable::Grant(std::string request_id, std::vector<BlockRef> blocks,
                                              MonoTime now) {
  if (blocks.empty() || blocks.size() > options_.max_blocks_per_lease) {
    return Err(Code::kInvalidArgument, "a lease over {} KV blocks (1 to {} can be leased)",
               blocks.size(), options_.max_blocks_per_lease);
  }
  std::unique_lock lock(mutex_);
  if (leases_.size() + freed_.size() >= options_.max_leases) {
    return Err(Code::kOverloaded,
               "{} KV leases are held, the limit: decode workers do not collect "
               "finished prompts fast enough",
               options_.max_leases);
  }
  const LeaseId id = NewId();
  Lease lease;
  lease.request_id = std::move(request_id);
  lease.generations.reserve(blocks.size());
  for (const BlockRef& ref : blocks) lease.generations.emplace(ref.block, ref.generation);
  lease.blocks = std::move(blocks);
  lease.expiry = now + options_.lease;
  lease.limit = now + kMaxLeaseTimes * options_.lease;
  const Granted granted{id, lease.expiry};
  stats_.leased_blocks += lease.blocks.size();
  ++stats_.granted;
  ++stats_.leases;
  by_expiry_.emplace(lease.expiry, id);
  leases_.emplace(id, std::move(lease));
  return granted;
}

size_t LeaseTable::Heartbeat(std::span<const LeaseId> leases, MonoTime now) {
  std::unique_lock lock(mutex_);
  size_t held = 0;
  for (const LeaseId id : leases) {
    const auto it = leases_.find(id);
    if (it == leases_.end() || it->second.ended) continue;
    ++held;
    Lease& lease = it->second;
    const MonoTime wanted = std::min(now + options_.lease * 2 / 3, lease.limit);
    if (wanted <= lease.expiry) continue;
    by_expiry_.erase({lease.expiry, id});
    lease.expiry = wanted;
    by_expiry_.emplace(wanted, id);
  }
  return held;
}

Result<PinId> LeaseTable::Open(LeaseId id, uint64_t incarnation, std::span<const BlockRef> blocks,
                               ConnectionId connection) {
  std::unique_lock lock(mutex_);
  const auto stale = [&](std::string_view why) {
    ++stats_.open_stale;
    return Err(Code::kStale, "KV lease {:016x}: {}", id, why);
  };
  if (incarnation != options_.incarnation)
    return stale("granted by an earlier life of this worker");
  const auto it = leases_.find(id);
  if (it == leases_.end() || it->second.ended) return stale("released, expired or unknown");
  Lease& lease = it->second;
  for (const BlockRef& ref : blocks) {
    const auto found = lease.generations.find(ref.block);
    if (found == lease.generations.end() || found->second != ref.generation) {
      return stale(
          fmt::format("block {} generation {} is not part of it", ref.block, ref.generation));
    }
  }
  if (pins_.size() >= options_.max_pins || lease.pins.size() >= options_.max_pins_per_lease) {
    return Err(Code::kOverloaded, "{} reads are open on KV lease {:016x} and {} in all, the limit",
               lease.pins.size(), id, pins_.size());
  }
  const PinId pin = NewId();
  pins_.emplace(pin, Pin{id, connection});
  lease.pins.push_back(pin);
  ++stats_.opened;
  return pin;
}

CloseAnswer LeaseTable::Close(PinId pin, bool release, MonoTime now) {
  std::unique_lock lock(mutex_);
  ForgetAnswers(now);
  const auto it = pins_.find(pin);
  if (it == pins_.end()) {
    if (answers_.contains(pin)) return CloseAnswer::kValid;
    ++stats_.closed_stale;
    return CloseAnswer::kStale;
  }
  // A pin that lives proves that its lease was held all the time since Open.
  const LeaseId lease = it->second.lease;
  DropPin(pin);
  if (answers_.size() >= options_.max_answers) {
    answers_.erase(answers_order_.front().second);
    answers_order_.pop_front();
  }
  answers_.emplace(pin, now + options_.lease);
  answers_order_.emplace_back(now + options_.lease, pin);
  ++stats_.closed_valid;
  if (release) End(lease, LeaseEnd::kReleased);
  NotifyFreed(lock);
  return CloseAnswer::kValid;
}

bool LeaseTable::Release(LeaseId id) {
  std::unique_lock lock(mutex_);
  const auto it = leases_.find(id);
  if (it == leases_.end() || it->second.ended) return false;
  End(id, LeaseEnd::kReleased);
  NotifyFreed(lock);
  return true;
}

void LeaseTable::ConnectionLost(ConnectionId connection) {
  std::unique_lock lock(mutex_);
  std::vector<PinId> dead;
  for (const auto& [id, pin] : pins_) {
    if (pin.connection == connection) dead.push_back(id);
  }
  for (const PinId id : dead) DropPin(id);
}

size_t LeaseTable::Expire(MonoTime now) {
  std::unique_lock lock(mutex_);
  ForgetAnswers(now);
  size_t ended = 0;
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
    End(by_expiry_.begin()->second, LeaseEnd::kExpired);
    ++ended;
  }
  NotifyFreed(lock);
  return ended;
}

MonoTime LeaseTable::NextExpiry() const {
  std::unique_lock lock(mutex_);
  return by_expiry_.empty() ? kNever : by_expiry_.begin()->first;
}

std::vector<FreedLease> LeaseTable::TakeFreed() {
  std::unique_lock lock(mutex_);
  for (const FreedLease& freed : freed_) stats_.leased_blocks -= freed.blocks.size();
  return std::exchange(freed_, {});
}

bool LeaseTable::BeginRead(PinId pin) {
  std::unique_lock lock(mutex_);
  const auto it = pins_.find(pin);
  if (it == pins_.end() || reads_.contains(pin)) return false;
  reads_.emplace(pin, it->second.lease);
  ++leases_.at(it->second.lease).reads;
  return true;
}

void LeaseTable::EndRead(PinId pin) {
  std::unique_lock lock(mutex_);
  const auto it = reads_.find(pin);
  CHECK(it != reads_.end());
  const LeaseId id = it->second;
  reads_.erase(it);
  Lease& lease = leases_.at(id);
  --lease.reads;
  if (lease.ended && lease.reads == 0) {
    --stats_.draining;
    HandBack(id);
  }
  NotifyFreed(lock);
}

void LeaseTable::End(LeaseId id, LeaseEnd end) {
  Lease& lease = leases_.at(id);
  CHECK(!lease.ended);
  by_expiry_.erase({lease.expiry, id});
  for (const PinId pin : lease.pins) pins_.erase(pin);
  lease.pins.clear();
  lease.ended = true;
  lease.end = end;
  --stats_.leases;
  ++(end == LeaseEnd::kReleased ? stats_.released : stats_.expired);
  if (lease.reads == 0) {
    HandBack(id);
  } else {
    ++stats_.draining;
  }
}

void LeaseTable::HandBack(LeaseId id) {
  const auto it = leases_.find(id);
  FreedLease freed;
  freed.lease = id;
  freed.end = it->second.end;
  freed.request_id = std::move(it->second.request_id);
  freed.blocks.reserve(it->second.blocks.size());
  for (const BlockRef& ref : it->second.blocks) freed.blocks.push_back(ref.block);
  leases_.erase(it);
  freed_.push_back(std::move(freed));
  freed_news_ = true;
}

void LeaseTable::DropPin(PinId id) {
  const auto it = pins_.find(id);
  std::erase(leases_.at(it->second.lease).pins, id);
  pins_.erase(it);
}

void LeaseTable::ForgetAnswers(MonoTime now) {
  while (!answers_order_.empty() && answers_order_.front().first <= now) {
    answers_.erase(answers_order_.front().second);
    answers_order_.pop_front();
  }
}

LeaseStats LeaseTable::stats() const {
  std::unique_lock lock(mutex_);
  LeaseStats s = stats_;
  s.pins = pins_.size();
  return s;
}

}  // namespace tandem::kv

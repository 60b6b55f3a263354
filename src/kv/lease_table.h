// The owner's side of the hand-over (docs/contracts/hand-over.md): which finished prompts are kept
// for a reader, until when, and which reads are going on.
//
// A lease owns one ref in the block pool for each of its blocks, from Grant until TakeFreed hands
// the blocks back, exactly once. It is held, then released or expired, never held again. A pin
// belongs to a lease and a connection and dies with either. Close answers kValid only if the pin
// lived until then, hence only if no block of the lease can have been given new content since
// Open. Decisions depend on this state alone: `now` only moves expiry times and ends leases in
// Expire.
//
// Thread-safe: the scheduler thread grants, expires and takes back, a network loop does the rest.
// Every call is short (no I/O, no waiting) and time is an argument.
#ifndef TANDEM_KV_LEASE_TABLE_H_
#define TANDEM_KV_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "kv/ids.h"

namespace tandem::kv {

enum class LeaseEnd { kReleased, kExpired };
enum class CloseAnswer { kValid, kStale };

// Blocks of an ended lease: the scheduler gives their refs back to its pool.
struct FreedLease {
  LeaseId lease = 0;
  LeaseEnd end = LeaseEnd::kReleased;
  std::string request_id;
  std::vector<BlockId> blocks;
};

struct LeaseStats {
  size_t leases = 0;    // held
  size_t draining = 0;  // ended, but a chunk of theirs is still being sent
  size_t pins = 0;
  size_t leased_blocks = 0;  // refs held by leases, the not yet taken back included
  uint64_t granted = 0;
  uint64_t released = 0;
  uint64_t expired = 0;
  uint64_t opened = 0;
  uint64_t open_stale = 0;
  uint64_t closed_valid = 0;
  uint64_t closed_stale = 0;
};

class LeaseTable {
 public:
  struct Options {
    // Names this life of the owner; a random number chosen at start, not 0. Lease ids derive from
    // it, so ids of two lives do not meet.
    uint64_t incarnation = 0;
    Duration lease = std::chrono::seconds(30);
    size_t max_leases = 4096;  // held, draining or not yet taken back
    size_t max_pins = 4096;
    size_t max_pins_per_lease = 8;
    size_t max_blocks_per_lease = size_t{1} << 20;
    size_t max_answers = 65536;  // closed pins remembered
  };
  // A lease ends at the latest this many lease times after Grant, whatever a reader sends. Readers
  // give up after four.
  static constexpr int kMaxLeaseTimes = 5;

  explicit LeaseTable(const Options& options);
  LeaseTable(const LeaseTable&) = delete;
  LeaseTable& operator=(const LeaseTable&) = delete;

  // Called after blocks became available to TakeFreed, on the thread that ended the lease, without
  // the lock. Set once, before other threads use the table.
  void SetOnFreed(std::function<void()> on_freed) { on_freed_ = std::move(on_freed); }

  uint64_t incarnation() const { return options_.incarnation; }
  Duration lease_duration() const { return options_.lease; }

  // Takes over the caller's refs on `blocks` (at least one), in sequence order. kOverloaded when
  // the table is full: the refs then stay with the caller.
  struct Granted {
    LeaseId lease = 0;
    MonoTime expiry;
  };
  Result<Granted> Grant(std::string request_id, std::vector<BlockRef> blocks, MonoTime now);

  // expiry = max(expiry, now + 2/3 lease). Leases that have ended are skipped; returns how many
  // were still held.
  size_t Heartbeat(std::span<const LeaseId> leases, MonoTime now);

  // kStale unless the lease is held in this incarnation and each pair is one of its blocks.
  // kOverloaded when there are too many pins.
  Result<PinId> Open(LeaseId lease, uint64_t incarnation, std::span<const BlockRef> blocks,
                     ConnectionId connection);

  // Ends the pin. With `release`, a valid close releases the lease in the same step. Idempotent: a
  // pin closed as valid answers so again for one lease time, over any connection; every other pin
  // that does not live is kStale.
  CloseAnswer Close(PinId pin, bool release, MonoTime now);

  // Ends the lease and its pins. False if it was not held (already ended, or never granted).
  bool Release(LeaseId lease);

  // Ends the pins of a connection; their leases go on, for a retry by another reader.
  void ConnectionLost(ConnectionId connection);

  // Ends all leases whose expiry has come. Returns how many.
  size_t Expire(MonoTime now);
  MonoTime NextExpiry() const;  // kNever when nothing is held

  // Leases that ended since the last call.
  std::vector<FreedLease> TakeFreed();

  // Brackets each time the owner itself reads leased bytes (the tcp transport): while a read goes
  // on, an ending lease is only draining, and its blocks are handed back after EndRead. False if
  // the pin does not live: then nothing may be read, and EndRead must not be called.
  bool BeginRead(PinId pin);
  void EndRead(PinId pin);

  LeaseStats stats() const;

 private:
  struct Lease {
    std::string request_id;
    std::vector<BlockRef> blocks;  // sequence order
    std::unordered_map<BlockId, uint64_t> generations;
    MonoTime expiry;
    MonoTime limit;  // no heartbeat moves expiry beyond this
    std::vector<PinId> pins;
    int reads = 0;
    bool ended = false;
    LeaseEnd end = LeaseEnd::kReleased;
  };
  struct Pin {
    LeaseId lease = 0;
    ConnectionId connection = 0;
  };

  // Callers hold mutex_ for all of these.
  uint64_t NewId();
  void End(LeaseId id, LeaseEnd end);
  void HandBack(LeaseId id);
  void DropPin(PinId id);
  void ForgetAnswers(MonoTime now);
  void NotifyFreed(std::unique_lock<std::mutex>& lock);

  const Options options_;
  std::function<void()> on_freed_;

  mutable std::mutex mutex_;
  uint64_t counter_ = 0;
  std::unordered_map<LeaseId, Lease> leases_;         // held and draining
  std::set<std::pair<MonoTime, LeaseId>> by_expiry_;  // held
  std::unordered_map<PinId, Pin> pins_;
  std::unordered_map<PinId, LeaseId> reads_;              // pins with a read going on
  std::deque<std::pair<MonoTime, PinId>> answers_order_;  // when each kept answer is forgotten
  std::unordered_map<PinId, MonoTime> answers_;           // pins closed as valid
  std::vector<FreedLease> freed_;
  bool freed_news_ = false;
  LeaseStats stats_;
};

// Owns one BeginRead/EndRead bracket.
class LeaseRead {
 public:
  LeaseRead(LeaseTable& table, PinId pin)
      : table_(table), pin_(pin), allowed_(table.BeginRead(pin)) {}
  ~LeaseRead() {
    if (allowed_) table_.EndRead(pin_);
  }
  LeaseRead(const LeaseRead&) = delete;
  LeaseRead& operator=(const LeaseRead&) = delete;
  explicit operator bool() const { return allowed_; }

 private:
  LeaseTable& table_;
  PinId pin_;
  bool allowed_;
};

}  // namespace tandem::kv

#endif  // TANDEM_KV_LEASE_TABLE_H_

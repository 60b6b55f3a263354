// Keeps leases alive while their requests wait or pull: a heartbeat each sixth of a lease time,
// from arrival on, one message per owner for all of its leases.
#ifndef TANDEM_XFER_HANDOVER_KEEPER_H_
#define TANDEM_XFER_HANDOVER_KEEPER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/metrics.h"
#include "base/time.h"
#include "rt/runtime.h"
#include "rt/scope.h"
#include "xfer/kv_reader.h"
#include "xfer/transfer_params.h"

namespace tandem::xfer {

class HandoverKeeper {
 public:
  // After this many lease times the decode side computes the prompt itself: heartbeats end.
  static constexpr int kPatienceLeaseTimes = 4;

  // `reader` outlives the keeper.
  HandoverKeeper(rt::Runtime& runtime, KvReader& reader, Metrics& metrics);
  HandoverKeeper(const HandoverKeeper&) = delete;
  HandoverKeeper& operator=(const HandoverKeeper&) = delete;
  ~HandoverKeeper();  // after all holds are gone

  // Heartbeats go on while it lives. Movable, loop thread only.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();
    // When this side should stop waiting for the transfer and compute the prompt itself.
    MonoTime give_up() const { return give_up_; }

   private:
    friend class HandoverKeeper;
    HandoverKeeper* keeper_ = nullptr;
    std::string owner_;
    uint64_t id_ = 0;
    MonoTime give_up_ = kNever;
  };
  Hold Keep(const TransferParams& params);

  rt::Task<void> Stop();
  size_t holds() const;

 private:
  struct Held {
    kv::LeaseId lease = 0;
    MonoTime give_up;
  };
  struct Owner {
    LeaseSource source;
    Duration interval{0};
    std::map<uint64_t, Held> holds;
  };
  rt::Task<void> Beat(std::string owner);
  void Drop(const std::string& owner, uint64_t id);

  rt::Runtime& runtime_;
  KvReader& reader_;
  Counter& failures_;
  uint64_t next_id_ = 1;
  std::map<std::string, Owner> owners_;  // by engine, address and incarnation; bounded by requests
  rt::TaskScope scope_;
};

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_HANDOVER_KEEPER_H_

// The engine's ends of the hand-over on the loop: as owner it serves leased blocks, as reader it
// holds remote leases and pulls from them. The scheduler decides what is to happen; this carries it
// out.
#ifndef TANDEM_ENGINE_TRANSFER_SIDE_H_
#define TANDEM_ENGINE_TRANSFER_SIDE_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/metrics.h"
#include "engine/scheduler.h"
#include "kv/lease_table.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/scope.h"
#include "xfer/arena.h"
#include "xfer/handover_keeper.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"
#include "xfer/transfer_params.h"

namespace tandem::engine {

struct TransferOptions {
  std::string engine_id;
  xfer::KvIdentity identity;
  Duration lease = std::chrono::seconds(30);
  std::vector<std::string> transports = {"shm", "tcp"};
  bool serve = true;  // run the owner's side; off for a decode worker
  rt::Address listen{"127.0.0.1", 0};
  std::string advertised_host;  // what readers connect to; empty: the host listened on
};

// Loop thread only. `arena` and `leases` outlive it, and the arena outlives the runtime's helper
// threads (a pull may be copying when everything is torn down).
class TransferSide {
 public:
  using OnPullFinished = std::function<void(PullId, Result<PullDone>)>;
  TransferSide(rt::Runtime& runtime, const xfer::Arena& arena, kv::LeaseTable& leases,
               TransferOptions options, Metrics& metrics, OnPullFinished on_pull_finished);

  Status Start();
  // Cancels pulls, waits for them, closes all connections.
  rt::Task<void> Stop();

  // A decode leg arrived: its lease is kept alive from now on. The answer is what the scheduler
  // gets to see.
  RemoteKv Begin(RequestKey key, xfer::TransferParams params);
  void Execute(TransferCommand command);
  // The request is gone: cancels its pull and releases its lease now. Idempotent, as are commands
  // for a request that is not known any more.
  void Abandon(RequestKey key);

  // A prefill leg ended: what its reader must know.
  std::string Describe(const GrantedKv& granted, const std::string& request_id) const;

  size_t holds() const { return entries_.size(); }
  size_t pulls() const { return reader_.pulls(); }
  size_t connections() const;
  std::string side_channel() const;  // "" unless serving

 private:
  struct Entry {
    xfer::TransferParams params;
    xfer::HandoverKeeper::Hold hold;
    std::unique_ptr<rt::CancelSource> pull;  // while one is under way
  };
  rt::Task<void> Pull(TransferCommand command, xfer::LeaseSource source, rt::CancelToken cancel,
                      MonoTime give_up);

  const xfer::Arena& arena_;
  kv::LeaseTable& leases_;
  const TransferOptions options_;
  const OnPullFinished on_pull_finished_;
  std::unique_ptr<xfer::KvServer> server_;
  xfer::KvReader reader_;
  xfer::HandoverKeeper keeper_;
  std::unordered_map<RequestKey, Entry> entries_;
  rt::TaskScope scope_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_TRANSFER_SIDE_H_

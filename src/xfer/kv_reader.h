// The reader's end of the hand-over: pulls the blocks of a lease from their owner.
#ifndef TANDEM_XFER_KV_READER_H_
#define TANDEM_XFER_KV_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "kv/ids.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/scope.h"
#include "xfer/arena.h"
#include "xfer/identity.h"
#include "xfer/transfer_params.h"

namespace tandem::xfer {

// Whose lease it is: the part of TransferParams that every call needs.
struct LeaseSource {
  std::string engine_id;
  std::string host;
  uint16_t port = 0;
  uint64_t incarnation = 0;
  kv::LeaseId lease = 0;
  std::string request_id;

  static LeaseSource Of(const TransferParams& params);
};

struct PullBlock {
  kv::BlockRef remote;
  std::byte* destination = nullptr;  // identity.block_bytes bytes
};

struct PullStats {
  int64_t bytes = 0;
  double seconds = 0;         // from the call to the owner's answer to Close
  double copy_seconds = 0;    // of that, moving bytes
  std::string transport;      // "shm" or "tcp"
  bool same_numerics = true;  // false: the output may differ in the last bits from local compute
};

namespace internal {
class PeerPool;
class PeerHandle;
}  // namespace internal

// Lives on one loop. Pulls run at the same time, each over a connection of its own: a pin dies with
// its connection, so a cancelled pull ends its pin by closing it.
class KvReader {
 public:
  struct Options {
    KvIdentity identity;
    std::string engine_id;                                 // ours, for the owner's log
    std::vector<std::string> transports = {"shm", "tcp"};  // best first
    size_t max_connections_per_peer = 8;  // further pulls wait, within their deadline
    size_t max_peers = 256;
    size_t max_idle_per_peer = 4;
    size_t max_releases = 1024;  // under way; beyond it a lease is left to expire, counted
    // How shm gets the descriptor of an owner's arena: address, token, incarnation. Runs on a
    // helper thread. Empty: FetchFd. Simulations, which have no Unix sockets, bring their own.
    std::function<Result<Fd>(const std::string&, uint64_t, uint64_t)> fetch_arena;
    Duration connect_timeout = std::chrono::seconds(5);
    Duration io_timeout = std::chrono::seconds(10);  // without a byte from the owner
  };
  KvReader(rt::Runtime& runtime, Options options, Metrics& metrics);
  ~KvReader();  // after Stop, or after its runtime's tasks were destroyed
  KvReader(const KvReader&) = delete;
  KvReader& operator=(const KvReader&) = delete;

  // Copies every block to its destination. Success means that the owner confirmed, after the copy,
  // that all blocks held that content throughout; with `release` it has then also ended the lease.
  // Otherwise the destinations hold garbage that must not be used:
  //   kStale           the lease ended, the owner restarted, or a block has other content
  //   kIncompatible    the owner's model, layout, dtype or block size differs
  //   kConnectionLost, kUnavailable   the owner died or cannot be reached
  //   kOverloaded      the owner or this reader is at a limit
  //   kDeadlineExceeded, kCancelled
  // After it returned, or its task was destroyed, nothing writes to the destinations any more.
  rt::Task<Result<PullStats>> Pull(LeaseSource source, std::vector<PullBlock> blocks, bool release,
                                   rt::CancelToken cancel, MonoTime deadline);

  // Tells the owner, in the background, that the lease is not needed. Best effort: an owner that
  // does not hear it expires the lease.
  void Release(LeaseSource source);

  // One exchange: renews the leases (all of one owner) and returns how many it still holds.
  rt::Task<Result<size_t>> Heartbeat(LeaseSource owner, std::vector<kv::LeaseId> leases,
                                     rt::CancelToken cancel);

  // Cancels what runs in the background and closes all connections. Pulls must have returned.
  rt::Task<void> Stop();

  size_t pulls() const { return pulls_; }            // under way
  size_t releases() const { return scope_.Size(); }  // under way
  size_t connections() const;
  size_t mappings() const;  // arenas of other processes mapped now

 private:
  rt::Task<Result<PullStats>> PullOnce(LeaseSource source, std::vector<PullBlock>* blocks,
                                       bool release, rt::CancelToken cancel, bool* fresh);
  rt::Task<Result<std::string>> ChooseTransport(internal::PeerHandle& peer);
  rt::Task<Result<bool>> ClosePin(LeaseSource source, internal::PeerHandle& peer, kv::PinId pin,
                                  bool release, rt::CancelToken cancel);
  rt::Task<void> ReleaseTask(LeaseSource source);
  void Count(const Result<PullStats>& result);

  rt::Runtime& runtime_;
  const Options options_;
  Metrics& metrics_;
  size_t pulls_ = 0;
  std::unique_ptr<internal::PeerPool> peers_;
  rt::TaskScope scope_;  // releases
};

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_KV_READER_H_

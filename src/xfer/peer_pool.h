// Connections to owners, kept and reused. A connection serves one exchange at a time.
#ifndef TANDEM_XFER_PEER_POOL_H_
#define TANDEM_XFER_PEER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/scope.h"
#include "rt/stream.h"
#include "rt/wait_list.h"
#include "xfer/arena.h"
#include "xfer/frame_stream.h"
#include "xfer/kv_reader.h"
#include "xfer/side_channel.h"

namespace tandem::xfer::internal {

// One connection after its handshake.
struct PeerConnection {
  explicit PeerConnection(FrameStream s) : frames(std::move(s)) {}

  FrameStream frames;
  Welcome welcome;
  // Shared with the other connections to this life of the owner, and unmapped with the last of
  // them, so that a dead owner's memory is given back.
  std::shared_ptr<const ArenaMapping> mapping;
  bool reused = false;  // it may have died unnoticed since its last exchange
  bool gone = false;    // the peer closed it
  rt::CancelRegistration on_gone;
};

class PeerPool;
struct Peer;

// Keeps a peer in the pool's table.
class PeerRef {
 public:
  explicit PeerRef(Peer* peer);
  PeerRef(PeerRef&& other) noexcept : peer_(std::exchange(other.peer_, nullptr)) {}
  PeerRef& operator=(PeerRef&&) = delete;
  ~PeerRef();
  Peer* operator->() const { return peer_; }
  Peer* get() const { return peer_; }

 private:
  Peer* peer_ = nullptr;
};

// The right to use one connection. Closes it when destroyed, unless Keep was called: an exchange
// that was left half way makes a connection useless, and closing it ends its pin at the owner.
class PeerHandle {
 public:
  PeerHandle(PeerHandle&& other) noexcept;
  PeerHandle& operator=(PeerHandle&&) = delete;
  ~PeerHandle();
  PeerConnection* operator->() const { return connection_.get(); }
  PeerConnection& operator*() const { return *connection_; }
  // The last exchange is complete: the next user may have the connection.
  void Keep() { keep_ = true; }
  // Closes the connection now; the handle is then of no more use.
  void Drop();

 private:
  friend class PeerPool;
  PeerHandle(PeerPool& pool, PeerRef peer);
  PeerPool* pool_;
  PeerRef peer_;
  std::unique_ptr<PeerConnection> connection_;
  bool keep_ = false;
};

class PeerPool {
 public:
  PeerPool(rt::Runtime& runtime, const KvReader::Options& options, Metrics& metrics);
  ~PeerPool();
  PeerPool(const PeerPool&) = delete;
  PeerPool& operator=(const PeerPool&) = delete;

  // A connection to the life of the owner that `source` names, from the pool or (always, if
  // `fresh`) newly made. Waits while the peer has as many as allowed. kStale if the owner is
  // another one.
  rt::Task<Result<PeerHandle>> Acquire(LeaseSource source, bool fresh, rt::CancelToken cancel);

  // Maps the owner's arena unless it is mapped already. Where that cannot be (another host, another
  // network namespace, another user), says why, once per life of the owner.
  rt::Task<Status> MapArena(PeerHandle& handle);

  rt::Task<void> Stop();
  size_t connections() const;
  size_t mappings() const;

 private:
  friend class PeerHandle;
  Result<PeerRef> FindPeer(const LeaseSource& source);
  static std::unique_ptr<PeerConnection> TakeIdle(Peer& peer, const LeaseSource& source);
  rt::Task<Result<std::unique_ptr<PeerConnection>>> Dial(Peer* peer, rt::CancelToken cancel);
  rt::Task<Status> Greet(Peer* peer, PeerConnection* connection, rt::CancelToken cancel);
  void GiveBack(Peer& peer, std::unique_ptr<PeerConnection> connection, bool keep);
  rt::Task<void> Sweep(std::string key);

  rt::Runtime& runtime_;
  const KvReader::Options& options_;
  Counter& numerics_mismatches_;
  Counter& shm_refused_;
  bool stopped_ = false;
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // by host:port, at most max_peers
  rt::TaskScope scope_;
};

}  // namespace tandem::xfer::internal

#endif  // TANDEM_XFER_PEER_POOL_H_

// The owner's end of the side channel: answers Open, Close, Heartbeat and Release out of a lease
// table, streams blocks over tcp, and hands the arena's descriptor to readers on this host.
#ifndef TANDEM_XFER_KV_SERVER_H_
#define TANDEM_XFER_KV_SERVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "kv/lease_table.h"
#include "rt/runtime.h"
#include "rt/scope.h"
#include "rt/stream.h"
#include "xfer/arena.h"
#include "xfer/identity.h"

namespace tandem::xfer {

// Lives on one loop: construct, Start, Stop and destroy it there. `arena` and `leases` outlive it.
// It never ends a lease by time; whoever drains the table calls Expire.
class KvServer {
 public:
  struct Options {
    std::string engine_id;
    KvIdentity identity;
    rt::Address listen;            // VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT; port 0: any free one
    bool offer_shm = true;         // needs a shared arena; without one it is not offered
    size_t max_connections = 256;  // beyond it a new one is closed at once
    Duration io_timeout = std::chrono::seconds(5);     // a frame begun, or a chunk written
    Duration idle_timeout = std::chrono::minutes(10);  // between requests, while no pin is open
  };
  KvServer(rt::Runtime& runtime, const Arena& arena, kv::LeaseTable& leases, Options options,
           Metrics& metrics);
  // After Stop; or at any time, which cuts its connections off like a killed process.
  ~KvServer();
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;

  Status Start();
  // Closes the listeners and all connections, then waits for their tasks.
  rt::Task<void> Stop();

  rt::Address address() const;  // with the real port; after Start
  // Where readers get the arena; empty if shm is not offered.
  const std::string& shm_address() const { return shm_address_; }
  size_t connections() const { return connections_; }

 private:
  struct Connection;
  // Counts one connection as long as its task lives.
  class Slot;
  rt::Task<void> AcceptLoop();
  rt::Task<void> Serve(std::unique_ptr<rt::Stream> stream);
  rt::Task<Status> Handshake(Connection& connection);
  rt::Task<Status> AnswerNext(Connection& connection);
  rt::Task<Status> AnswerOpen(Connection& connection, std::span<const std::byte> body);
  rt::Task<Status> AnswerClose(Connection& connection, std::span<const std::byte> body);
  rt::Task<Status> AnswerHeartbeat(Connection& connection, std::span<const std::byte> body);
  rt::Task<Status> AnswerRelease(Connection& connection, std::span<const std::byte> body);
  rt::Task<Status> SendBlocks(Connection& connection, kv::PinId pin,
                              std::vector<kv::BlockRef> blocks);

  void ListenForFds();
  rt::Task<void> FdLoop();
  rt::Task<void> PassFd(std::unique_ptr<rt::Stream> stream);

  rt::Runtime& runtime_;
  const Arena& arena_;
  kv::LeaseTable& leases_;
  const Options options_;
  Counter& bytes_sent_;
  Counter& refused_;
  Counter& arenas_passed_;
  std::unique_ptr<rt::Listener> listener_;
  std::unique_ptr<rt::Listener> fd_listener_;
  std::string shm_address_;  // abstract Unix address; empty if shm is not offered
  uint64_t shm_token_ = 0;
  kv::ConnectionId next_connection_ = 1;
  size_t connections_ = 0;
  size_t fd_connections_ = 0;
  bool started_ = false;
  rt::TaskScope scope_;
};

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_KV_SERVER_H_

// Internal to rt: one simulated connection. Bytes that an end writes arrive at the other in order,
// after the link's latency and at its bandwidth, unless a fault holds them up.
#ifndef TANDEM_RT_SIM_CONNECTION_H_
#define TANDEM_RT_SIM_CONNECTION_H_

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rt/sim_network.h"
#include "rt/stream.h"
#include "rt/wait_list.h"

namespace tandem::rt::internal {

// Shared by the streams of both ends and the tasks inside their calls. Ends are 0 and 1.
class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  SimConnection(SimFabric& fabric, SimHost& opener, SimHost& accepter, std::string address);
  ~SimConnection();
  SimConnection(const SimConnection&) = delete;
  SimConnection& operator=(const SimConnection&) = delete;

  static Task<Result<size_t>> Read(std::shared_ptr<SimConnection> self, int end,
                                   std::span<std::byte> into, CancelToken cancel);
  static Task<Status> Write(std::shared_ptr<SimConnection> self, int end,
                            std::span<const std::byte> bytes, CancelToken cancel);
  Result<size_t> TryWrite(int end, std::span<const std::byte> bytes);
  void Close(int end);
  void EndWrites(int end);
  CancelRegistration OnPeerGone(int end, std::function<void()> callback);
  CancelRegistration OnBroken(int end, std::function<void()> callback);
  std::string PeerName(int end) const;

  bool Between(std::string_view a, std::string_view b) const;
  // Both ends see the connection break now.
  void Reset();
  // Delivers what is due; called again when a partition has healed.
  void Kick();
  void HostDied(const SimHost& host, KillMode mode);

 private:
  // Bytes on their way, or, if empty, the end of the stream.
  struct Segment {
    MonoTime due;
    std::vector<std::byte> bytes;
  };
  // What one end has, and what travels to it.
  struct End {
    End(SimHost& owner, Runtime& runtime) : host(&owner), readable(runtime), writable(runtime) {}
    SimHost* host;
    bool closed = false;    // by its owner
    bool ended = false;     // its owner writes no more; the peer is told
    bool broken = false;    // reset
    bool silent = false;    // its machine is off
    bool fin_seen = false;  // the peer's end of stream has arrived
    std::vector<std::byte> received;
    size_t read_position = 0;
    std::deque<Segment> incoming;
    size_t incoming_bytes = 0;
    MonoTime link_free{};
    std::unique_ptr<Timer> timer;
    WaitList readable;
    WaitList writable;  // waits for room at the other end
    CancelSource reset;
    CancelSource gone{reset.Token()};
  };

  End& Other(int end) { return ends_[static_cast<size_t>(1 - end)]; }
  End& At(int end) { return ends_[static_cast<size_t>(end)]; }
  size_t RoomFor(const End& to) const;
  void Send(int from, std::vector<std::byte> bytes);
  void Deliver(int to);
  void Arm(int to);
  void Break(End& end);
  static size_t Take(End& end, std::span<std::byte> into);

  SimFabric& fabric_;
  const uint64_t id_;
  const std::string address_;
  std::array<End, 2> ends_;
};

std::unique_ptr<Stream> MakeSimStream(std::shared_ptr<SimConnection> connection, int end);

}  // namespace tandem::rt::internal

#endif  // TANDEM_RT_SIM_CONNECTION_H_

// Byte streams: TCP and Unix sockets in the real runtime, simulated links in the other.
#ifndef TANDEM_RT_STREAM_H_
#define TANDEM_RT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "rt/cancel.h"
#include "rt/task.h"

namespace tandem::rt {

// "host:port" with a numeric address or a name, "[v6]:port", or "unix:/path", "unix:@abstract".
struct Address {
  std::string host;  // or the path of a Unix socket, starting with "unix:"
  uint16_t port = 0;
  bool IsUnix() const { return host.starts_with("unix:"); }
  std::string ToString() const;
  static Result<Address> Parse(std::string_view text);
};

// One connection. One reader and one writer at a time. Destroying it closes it. Loop thread only.
class Stream {
 public:
  virtual ~Stream() = default;
  // Reads 1..into.size() bytes; 0 at end of stream. Broken connections are kConnectionLost.
  virtual Task<Result<size_t>> Read(std::span<std::byte> into, CancelToken cancel = {}) = 0;
  // Writes all bytes, or fails. The bytes must stay valid until it is done.
  virtual Task<Status> Write(std::span<const std::byte> bytes, CancelToken cancel = {}) = 0;
  // Writes what fits without waiting and returns its size, 0 to bytes.size(). Not during a Write.
  virtual Result<size_t> TryWrite(std::span<const std::byte> bytes) = 0;
  // Ends the connection both ways; pending reads and writes fail with kConnectionLost.
  virtual void Close() = 0;
  // Half-closes: after what was written the peer reads the end of the stream; reading goes on.
  virtual void EndWrites() = 0;
  // Both run `callback` at most once, without consuming data: how a server notices that a client
  // went away while it computes. The first when the peer has ended its writing (it closed, or only
  // half-closed: TCP does not say which) or the connection broke; the second only when it broke. A
  // peer that has closed breaks the connection once something is written to it.
  [[nodiscard]] virtual CancelRegistration OnPeerGone(std::function<void()> callback) = 0;
  [[nodiscard]] virtual CancelRegistration OnBroken(std::function<void()> callback) = 0;
  virtual std::string PeerName() const = 0;
  // The socket's descriptor for SCM_RIGHTS and SO_PEERCRED in xfer; -1 in simulation.
  virtual int NativeHandle() const { return -1; }
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Task<Result<std::unique_ptr<Stream>>> Accept(CancelToken cancel = {}) = 0;
  virtual Address LocalAddress() const = 0;  // with the port that the kernel chose, if 0 was asked
  virtual void Close() = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual Result<std::unique_ptr<Listener>> Listen(const Address& address) = 0;
  // Fails with kUnavailable (refused, unreachable, timed out) or the token's reason.
  virtual Task<Result<std::unique_ptr<Stream>>> Connect(Address address, Duration timeout,
                                                        CancelToken cancel = {}) = 0;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_STREAM_H_

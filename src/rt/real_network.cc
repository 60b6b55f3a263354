#include "rt/real_network.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "rt/event.h"
#include "rt/socket_address.h"
#include "rt/wait_list.h"
#include "rt/yield.h"

namespace tandem::rt::internal {
namespace {

namespace asio = boost::asio;

std::string ErrnoText(int error) { return std::strerror(error); }

// A non-blocking descriptor and the tasks that wait until it can be read or written. System calls
// are made directly; asio only says when. Shared by its stream, the tasks inside Read and Write,
// and asio's handlers, which end in no fixed order.
class Socket : public std::enable_shared_from_this<Socket> {
 public:
  Socket(Runtime& runtime, asio::io_context& io)
      : descriptor_(io), readable_(runtime), writable_(runtime) {}
  // Takes `fd` over. Fails, and closes it, when the kernel watches no more descriptors for us.
  static Result<std::shared_ptr<Socket>> Make(Runtime& runtime, asio::io_context& io, int fd) {
    auto socket = std::make_shared<Socket>(runtime, io);
    boost::system::error_code error;
    socket->descriptor_.assign(fd, error);
    if (!error) return socket;
    close(fd);
    return Err(Code::kResourceExhausted, "cannot watch another socket: {}", error.message());
  }

  int fd() { return descriptor_.native_handle(); }
  bool closed() const { return closed_; }

  void Close() {
    if (closed_) return;
    closed_ = true;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    readable_.WakeAll();
    writable_.WakeAll();
  }

  // A peer that always has data ready must not keep the loop for itself.
  bool MayReadAgain() {
    constexpr int kReadsPerTurn = 16;
    if (++reads_in_a_row_ < kReadsPerTurn) return true;
    reads_in_a_row_ = 0;
    return false;
  }

  // Sends what fits.
  Result<size_t> Send(std::span<const std::byte> bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count =
          send(fd(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0) {
        sent += static_cast<size_t>(count);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (errno != EINTR)
        return Err(Code::kConnectionLost, "the connection broke: {}", ErrnoText(errno));
    }
    return sent;
  }

  // The latest read took all that was there, so that asking again would be in vain.
  void set_drained(bool drained) { drained_ = drained; }
  bool TakeDrained() { return std::exchange(drained_, false); }

  // OK when it is worth trying again, or when closed: test closed() afterwards.
  WaitList::Awaiter Readable(CancelToken cancel) {
    reads_in_a_row_ = 0;
    Arm(read_armed_, asio::posix::stream_descriptor::wait_read, readable_);
    return readable_.Wait(std::move(cancel));
  }
  WaitList::Awaiter Writable(CancelToken cancel) {
    Arm(write_armed_, asio::posix::stream_descriptor::wait_write, writable_);
    return writable_.Wait(std::move(cancel));
  }

 private:
  // An armed wait outlives the task that asked for it; the next task then shares it.
  void Arm(bool& armed, asio::posix::stream_descriptor::wait_type what, WaitList& waiters) {
    if (std::exchange(armed, true)) return;
    descriptor_.async_wait(
        what, [self = shared_from_this(), &armed, &waiters](const boost::system::error_code&) {
          armed = false;
          waiters.WakeAll();
        });
  }

  asio::posix::stream_descriptor descriptor_;
  bool closed_ = false;
  bool read_armed_ = false;
  bool write_armed_ = false;
  int reads_in_a_row_ = 0;
  bool drained_ = false;
  WaitList readable_;
  WaitList writable_;
};

// Sees peers go away without reading: one epoll set for all watched sockets, itself awaited by
// asio.
class PeerWatch : public std::enable_shared_from_this<PeerWatch> {
 public:
  explicit PeerWatch(asio::io_context& io) : set_(io, epoll_create1(EPOLL_CLOEXEC)) {}

  // Calls `ended`, on the loop, until Remove: with false when the peer has ended its writing, with
  // true, and for the last time, when the connection broke. 0 if the kernel watches no more: the
  // peer's end is then noticed by reading or writing only.
  uint64_t Add(int fd, std::function<void(bool broken)> ended) {
    const uint64_t id = next_id_++;
    epoll_event event{};
    event.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT;
    event.data.u64 = id;
    if (epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, fd, &event) != 0) {
      LOG_WARN_ONCE("cannot watch connections for their end: {}", ErrnoText(errno));
      return 0;
    }
    watched_.emplace(id, Watched{fd, std::move(ended)});
    Arm();
    return id;
  }
  void Remove(uint64_t id, int fd) {
    watched_.erase(id);
    epoll_ctl(set_.native_handle(), EPOLL_CTL_DEL, fd, nullptr);
  }

 private:
  struct Watched {
    int fd;
    std::function<void(bool broken)> ended;
  };

  void Arm() {
    if (std::exchange(armed_, true)) return;
    set_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      self->armed_ = false;
                      if (!error) self->Collect();
                    });
  }

  void Collect() {
    epoll_event events[64];
    const int count = epoll_wait(set_.native_handle(), events, std::size(events), 0);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;  // a copy: the kernel's struct is packed
      const auto found = watched_.find(id);
      if (found == watched_.end()) continue;
      const Watched watched = found->second;  // a copy: the callback may call Remove
      const bool broken = (events[i].events & (EPOLLHUP | EPOLLERR)) != 0;
      if (broken) {
        watched_.erase(found);
      } else {
        epoll_event rest{};
        rest.events = EPOLLONESHOT;  // of a break the kernel always tells
        rest.data.u64 = id;
        epoll_ctl(set_.native_handle(), EPOLL_CTL_MOD, watched.fd, &rest);
      }
      watched.ended(broken);
    }
    if (!watched_.empty()) Arm();
  }

  asio::posix::stream_descriptor set_;
  bool armed_ = false;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, Watched> watched_;
};

class RealStream final : public Stream {
 public:
  RealStream(Runtime& runtime, std::shared_ptr<PeerWatch> watch, std::shared_ptr<Socket> socket)
      : runtime_(runtime), watch_(std::move(watch)), socket_(std::move(socket)) {}
  ~RealStream() override { RealStream::Close(); }

  Task<Result<size_t>> Read(std::span<std::byte> into, CancelToken cancel) override {
    return ReadFrom(runtime_, socket_, into, std::move(cancel));
  }
  Task<Status> Write(std::span<const std::byte> bytes, CancelToken cancel) override {
    return WriteTo(socket_, bytes, std::move(cancel));
  }

  Result<size_t> TryWrite(std::span<const std::byte> bytes) override {
    if (socket_->closed()) return Err(Code::kConnectionLost, "the connection was closed");
    return socket_->Send(bytes);
  }

  void Close() override {
    if (watch_id_ != 0) watch_->Remove(std::exchange(watch_id_, 0), socket_->fd());
    socket_->Close();
  }

  void EndWrites() override {
    if (!socket_->closed()) shutdown(socket_->fd(), SHUT_WR);
  }

  CancelRegistration OnPeerGone(std::function<void()> callback) override {
    Watch();
    return ended_.Token().OnCancel(std::move(callback));
  }
  CancelRegistration OnBroken(std::function<void()> callback) override {
    Watch();
    return broken_.Token().OnCancel(std::move(callback));
  }

  std::string PeerName() const override {
    SocketAddress peer;
    peer.size = sizeof(peer.storage);
    if (socket_->closed() ||
        getpeername(socket_->fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0)
      return "a closed connection";
    return ToAddress(peer).ToString();
  }

  int NativeHandle() const override { return socket_->closed() ? -1 : socket_->fd(); }

 private:
  void Watch() {
    if (watched_ || socket_->closed()) return;
    watched_ = true;
    // The stream outlives the watch: Close, and so its destructor, removes it. One source fires per
    // call, and nothing after it, since a callback may destroy the stream.
    watch_id_ =
        watch_->Add(socket_->fd(), [this](bool broken) { (broken ? broken_ : ended_).Cancel(); });
  }

  static Task<Result<size_t>> ReadFrom(Runtime& runtime, std::shared_ptr<Socket> socket,
                                       std::span<std::byte> into, CancelToken cancel) {
    if (!socket->MayReadAgain()) co_await Yield(runtime);
    while (!socket->closed()) {
      if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
      if (socket->TakeDrained()) {
        CO_TRY(co_await socket->Readable(cancel));
        continue;
      }
      const ssize_t count = recv(socket->fd(), into.data(), into.size(), MSG_DONTWAIT);
      if (count >= 0) {
        socket->set_drained(count > 0 && static_cast<size_t>(count) < into.size());
        co_return static_cast<size_t>(count);
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        co_return Err(Code::kConnectionLost, "the connection broke: {}", ErrnoText(errno));
      CO_TRY(co_await socket->Readable(cancel));
    }
    co_return Err(Code::kConnectionLost, "the connection was closed");
  }

  static Task<Status> WriteTo(std::shared_ptr<Socket> socket, std::span<const std::byte> bytes,
                              CancelToken cancel) {
    while (!socket->closed()) {
      if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
      CO_TRY_ASSIGN(const size_t count, socket->Send(bytes));
      bytes = bytes.subspan(count);
      if (bytes.empty()) co_return Status();
      CO_TRY(co_await socket->Writable(cancel));
    }
    co_return Err(Code::kConnectionLost, "the connection was closed");
  }

  Runtime& runtime_;
  std::shared_ptr<PeerWatch> watch_;
  std::shared_ptr<Socket> socket_;
  bool watched_ = false;
  uint64_t watch_id_ = 0;
  CancelSource broken_;
  CancelSource ended_{broken_.Token()};
};

void SetTcpOptions(int fd, int family) {
  if (family == AF_UNIX) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

class RealListener final : public Listener {
 public:
  RealListener(Runtime& runtime, asio::io_context& io, std::shared_ptr<PeerWatch> watch,
               std::shared_ptr<Socket> socket, Address address)
      : runtime_(runtime),
        io_(io),
        watch_(std::move(watch)),
        socket_(std::move(socket)),
        address_(std::move(address)) {}
  ~RealListener() override { RealListener::Close(); }

  Task<Result<std::unique_ptr<Stream>>> Accept(CancelToken cancel) override {
    const std::shared_ptr<Socket> socket = socket_;
    while (!socket->closed()) {
      if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
      SocketAddress peer;
      peer.size = sizeof(peer.storage);
      const int fd = accept4(socket->fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        SetTcpOptions(fd, peer.family());
        CO_TRY_ASSIGN(auto connection, Socket::Make(runtime_, io_, fd));
        co_return std::make_unique<RealStream>(runtime_, watch_, std::move(connection));
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        CO_TRY(co_await socket->Readable(cancel));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        co_return Err(Code::kResourceExhausted, "cannot accept a connection on {}: {}",
                      address_.ToString(), ErrnoText(errno));
      }
      // Anything else concerns one connection that is already gone.
    }
    co_return Err(Code::kCancelled, "the listener is closed");
  }

  Address LocalAddress() const override { return address_; }

  void Close() override {
    if (socket_->closed()) return;
    socket_->Close();
    if (address_.host.starts_with("unix:/")) unlink(address_.host.c_str() + 5);
  }

 private:
  Runtime& runtime_;
  asio::io_context& io_;
  std::shared_ptr<PeerWatch> watch_;
  std::shared_ptr<Socket> socket_;
  Address address_;
};

// Owns a descriptor until it is handed on.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Descriptor OpenSocket(int family) {
  return Descriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A Unix socket's file that nobody listens on any more is left over from a process that died.
void RemoveStaleUnixSocket(const Address& address, const SocketAddress& target) {
  if (!address.host.starts_with("unix:/")) return;
  const Descriptor probe = OpenSocket(AF_UNIX);
  if (connect(probe.get(), target.get(), target.size) != 0 && errno == ECONNREFUSED)
    unlink(address.host.c_str() + 5);
}

Error ConnectError(const Address& address, int error) {
  return {Code::kUnavailable,
          fmt::format("cannot connect to {}: {}", address.ToString(), ErrnoText(error)),
          {}};
}

class RealNetwork final : public Network {
 public:
  RealNetwork(Runtime& runtime, asio::io_context& io)
      : runtime_(runtime), io_(io), watch_(std::make_shared<PeerWatch>(io)) {}

  Result<std::unique_ptr<Listener>> Listen(const Address& address) override {
    std::optional<SocketAddress> target = NumericAddress(address);
    if (!target) {
      TRY_ASSIGN(const auto found, LookUp(address));
      target = found.front();
    }
    RemoveStaleUnixSocket(address, *target);
    Descriptor fd = OpenSocket(target->family());
    const int on = 1;
    if (target->family() != AF_UNIX)
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    constexpr int kBacklog = 1024;
    SocketAddress local;
    local.size = sizeof(local.storage);
    if (fd.get() < 0 || bind(fd.get(), target->get(), target->size) != 0 ||
        listen(fd.get(), kBacklog) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.size) != 0) {
      return Err(Code::kUnavailable, "cannot listen on {}: {}; choose another address or port",
                 address.ToString(), ErrnoText(errno));
    }
    TRY_ASSIGN(auto socket, Socket::Make(runtime_, io_, fd.Release()));
    return std::make_unique<RealListener>(runtime_, io_, watch_, std::move(socket),
                                          ToAddress(local));
  }

  Task<Result<std::unique_ptr<Stream>>> Connect(Address address, Duration timeout,
                                                CancelToken cancel) override {
    CancelSource limit(cancel);
    const auto timer = runtime_.RunAt(runtime_.Now() + timeout, [&limit, &address, timeout] {
      limit.Cancel(
          {Code::kUnavailable,
           fmt::format("no connection to {} within {} ms", address.ToString(), ToMillis(timeout)),
           {}});
    });
    std::vector<SocketAddress> targets;
    if (const auto numeric = NumericAddress(address)) {
      targets.push_back(*numeric);
    } else {
      Result<std::vector<SocketAddress>> found;
      co_await runtime_.RunBlocking([&] { found = LookUp(address); });
      CO_TRY_ASSIGN(targets, std::move(found));
    }
    Error last = ConnectError(address, EADDRNOTAVAIL);
    for (const SocketAddress& target : targets) {
      auto stream = co_await ConnectTo(address, target, limit.Token());
      if (stream) co_return stream;
      last = stream.error();
      if (limit.Token().Cancelled()) break;
    }
    co_return std::unexpected(std::move(last));
  }

 private:
  Task<Result<std::unique_ptr<Stream>>> ConnectTo(const Address& address,
                                                  const SocketAddress& target, CancelToken cancel) {
    if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
    Descriptor fd = OpenSocket(target.family());
    if (fd.get() < 0) co_return std::unexpected(ConnectError(address, errno));
    SetTcpOptions(fd.get(), target.family());
    const bool done = connect(fd.get(), target.get(), target.size) == 0;
    // EAGAIN, of a Unix listener whose queue is full, is a refusal too.
    if (!done && errno != EINPROGRESS) co_return std::unexpected(ConnectError(address, errno));
    CO_TRY_ASSIGN(const auto socket, Socket::Make(runtime_, io_, fd.Release()));
    auto stream = std::make_unique<RealStream>(runtime_, watch_, socket);
    if (!done) CO_TRY(co_await socket->Writable(std::move(cancel)));
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) co_return std::unexpected(ConnectError(address, error));
    co_return stream;
  }

  Runtime& runtime_;
  asio::io_context& io_;
  std::shared_ptr<PeerWatch> watch_;
};

}  // namespace

std::unique_ptr<Network> MakeRealNetwork(Runtime& runtime, asio::io_context& io) {
  return std::make_unique<RealNetwork>(runtime, io);
}

}  // namespace tandem::rt::internal

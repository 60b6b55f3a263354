#include "net/blocking_stream.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tandem::net {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Session = std::unique_ptr<SSL, FreeSession>;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status Await(int fd, short events, Duration timeout, std::string_view whom) {
  pollfd wanted{fd, events, 0};
  int ready = 0;
  do {
    ready = poll(&wanted, 1, static_cast<int>(ToMillis(timeout)));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return {};
  if (ready == 0)
    return Err(Code::kDeadlineExceeded, "{} has not answered for {} s", whom, ToSeconds(timeout));
  return Err(Code::kInternal, "poll: {}", std::strerror(errno));
}

Result<Socket> ConnectTo(const addrinfo& address, Duration timeout, std::string_view whom) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
  if (socket.fd() < 0)
    return Err(Code::kResourceExhausted, "no socket for {}: {}", whom, std::strerror(errno));
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      return Err(Code::kUnavailable, "no connection to {}: {}", whom, std::strerror(errno));
    TRY(Await(socket.fd(), POLLOUT, timeout, whom));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
      return Err(Code::kUnavailable, "no connection to {}: {}", whom, std::strerror(error));
  }
  return socket;
}

std::string TlsError() {
  const unsigned long code = ERR_get_error();
  std::string text(256, '\0');
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  text.resize(std::strlen(text.c_str()));
  return code == 0 ? std::string("the peer ended it") : text;
}

Result<Context> MakeContext() {
  Context context(SSL_CTX_new(TLS_client_method()));
  if (!context) return Err(Code::kInternal, "TLS: {}", TlsError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_default_verify_paths(context.get());
  for (const char* variable : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})
    if (const char* file = std::getenv(variable); file != nullptr && *file != '\0')
      if (SSL_CTX_load_verify_locations(context.get(), file, nullptr) != 1)
        return FieldErr(variable, "{}: the certificates in '{}' cannot be read: {}", variable, file,
                        TlsError());
  return context;
}

}  // namespace

struct BlockingStream::Impl {
  Socket socket;
  Context context;
  Session session;  // null: plain TCP
  std::string whom;

  // What to do after a call of OpenSSL that returned `code`; success: call again.
  Status Continue(int code, Duration idle) {
    switch (SSL_get_error(session.get(), code)) {
      case SSL_ERROR_WANT_READ:
        return Await(socket.fd(), POLLIN, idle, whom);
      case SSL_ERROR_WANT_WRITE:
        return Await(socket.fd(), POLLOUT, idle, whom);
      default:
        return Err(Code::kConnectionLost, "the connection to {} broke: {}", whom, TlsError());
    }
  }

  Status StartTls(const std::string& host, Duration timeout) {
    // OpenSSL writes without a way to suppress it; rt's runtimes ignore it as well.
    std::signal(SIGPIPE, SIG_IGN);
    TRY_ASSIGN(context, MakeContext());
    session.reset(SSL_new(context.get()));
    if (!session || SSL_set_fd(session.get(), socket.fd()) != 1 ||
        SSL_set_tlsext_host_name(session.get(), host.c_str()) != 1)
      return Err(Code::kInternal, "TLS: {}", TlsError());
    // An address instead of a name is looked for among the certificate's addresses.
    X509_VERIFY_PARAM* rules = SSL_get0_param(session.get());
    X509_VERIFY_PARAM_set_hostflags(
        rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) != 1) {
      ERR_clear_error();
      if (SSL_set1_host(session.get(), host.c_str()) != 1)
        return Err(Code::kInternal, "TLS: {}", TlsError());
    }
    for (int code = SSL_connect(session.get()); code != 1; code = SSL_connect(session.get())) {
      const auto go_on = Continue(code, timeout);
      if (go_on) continue;
      if (go_on.error().code == Code::kDeadlineExceeded) return go_on;
      const long verdict = SSL_get_verify_result(session.get());
      if (verdict != X509_V_OK)
        return Err(Code::kIncompatible,
                   "{} is not trusted: {}; if a proxy stands between, name its authority's "
                   "certificate in SSL_CERT_FILE",
                   whom, X509_verify_cert_error_string(verdict));
      return go_on;
    }
    return {};
  }
};

BlockingStream::BlockingStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BlockingStream::~BlockingStream() = default;

Result<std::unique_ptr<BlockingStream>> BlockingStream::Connect(const std::string& host,
                                                                uint16_t port, bool tls,
                                                                Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  if (failed != 0)
    return Err(Code::kUnavailable, "the host '{}' is not known: {}", host, gai_strerror(failed));
  auto impl = std::make_unique<Impl>();
  impl->whom = fmt::format("{}:{}", host, port);
  Result<Socket> socket = Err(Code::kUnavailable, "the host '{}' has no address", host);
  for (const addrinfo* at = addresses.get(); at != nullptr && !socket; at = at->ai_next)
    socket = ConnectTo(*at, timeout, impl->whom);
  if (!socket) return std::unexpected(std::move(socket).error());
  impl->socket = *std::move(socket);
  if (tls) TRY(impl->StartTls(host, timeout));
  return std::unique_ptr<BlockingStream>(new BlockingStream(std::move(impl)));
}

Status BlockingStream::Write(std::span<const std::byte> bytes, Duration idle) {
  while (!bytes.empty()) {
    if (impl_->session) {
      size_t n = 0;
      const int code = SSL_write_ex(impl_->session.get(), bytes.data(), bytes.size(), &n);
      if (code != 1) {
        TRY(impl_->Continue(code, idle));
      } else {
        bytes = bytes.subspan(n);
      }
      continue;
    }
    const ssize_t n = send(impl_->socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      TRY(Await(impl_->socket.fd(), POLLOUT, idle, impl_->whom));
    } else if (errno != EINTR) {
      return Err(Code::kConnectionLost, "the connection to {} broke: {}", impl_->whom,
                 std::strerror(errno));
    }
  }
  return {};
}

Result<size_t> BlockingStream::Read(std::span<std::byte> into, Duration idle) {
  while (true) {
    if (impl_->session) {
      size_t n = 0;
      const int code = SSL_read_ex(impl_->session.get(), into.data(), into.size(), &n);
      if (code == 1) return n;
      if (SSL_get_error(impl_->session.get(), code) == SSL_ERROR_ZERO_RETURN) return size_t{0};
      TRY(impl_->Continue(code, idle));
      continue;
    }
    const ssize_t n = recv(impl_->socket.fd(), into.data(), into.size(), 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EAGAIN) {
      TRY(Await(impl_->socket.fd(), POLLIN, idle, impl_->whom));
    } else if (errno != EINTR) {
      return Err(Code::kConnectionLost, "the connection to {} broke: {}", impl_->whom,
                 std::strerror(errno));
    }
  }
}

}  // namespace tandem::net

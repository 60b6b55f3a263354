#include "xfer/fd_passing.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace tandem::xfer {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

// Room for one descriptor, aligned as the kernel wants it.
union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

Result<Fd> ConnectUnix(const std::string& address, Duration timeout) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (!address.starts_with(kUnixPrefix) || address.size() == kUnixPrefix.size() ||
      address.size() - kUnixPrefix.size() >= sizeof(name.sun_path)) {
    return Err(Code::kCorrupt, "'{}' is not the address of a Unix socket", address);
  }
  const std::string_view path = std::string_view(address).substr(kUnixPrefix.size());
  std::memcpy(name.sun_path, path.data(), path.size());
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (path[0] == '@') {
    name.sun_path[0] = '\0';  // an abstract name is its length's bytes, without a terminator
  } else {
    ++size;
  }
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  timeval limit{};
  limit.tv_sec = micros / 1'000'000;
  limit.tv_usec = micros % 1'000'000;
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
      connect(fd.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) {
    return Err(Code::kUnavailable, "no shared memory from '{}': {}", address, std::strerror(errno));
  }
  return fd;
}

}  // namespace

Status CheckSameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Err(Code::kUnavailable, "the peer's user cannot be told: {}", std::strerror(errno));
  }
  if (peer.uid != geteuid()) {
    return Err(Code::kIncompatible, "the peer runs as user {}, this process as user {}", peer.uid,
               geteuid());
  }
  return {};
}

Status SendFd(int socket, int fd, uint64_t note) {
  iovec data{&note, sizeof(note)};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof(note))) {
    return Err(Code::kConnectionLost, "sending the KV arena's descriptor failed: {}",
               std::strerror(errno));
  }
  return {};
}

Result<Fd> FetchFd(const std::string& address, uint64_t token, uint64_t note, Duration timeout) {
  TRY_ASSIGN(const Fd socket, ConnectUnix(address, timeout));
  TRY(CheckSameUser(socket.get()));
  if (send(socket.get(), &token, sizeof(token), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof(token))) {
    return Err(Code::kUnavailable, "asking for the KV arena failed: {}", std::strerror(errno));
  }
  uint64_t received_note = 0;
  iovec data{&received_note, sizeof(received_note)};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  Fd fd;
  for (cmsghdr* h = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); h != nullptr;
       h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
        h->cmsg_len != CMSG_LEN(sizeof(int))) {
      continue;
    }
    int raw = -1;
    std::memcpy(&raw, CMSG_DATA(h), sizeof(raw));
    fd = Fd(raw);
  }
  if (got != static_cast<ssize_t>(sizeof(note)) || !fd.valid()) {
    return Err(Code::kUnavailable, "the owner at '{}' did not hand over its KV arena", address);
  }
  if (received_note != note) {
    return Err(Code::kStale, "the KV arena at '{}' is that of another life of the worker", address);
  }
  return fd;
}

}  // namespace tandem::xfer

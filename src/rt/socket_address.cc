#include "rt/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <memory>

namespace tandem::rt::internal {
namespace {

SocketAddress UnixAddress(std::string_view path) {
  SocketAddress out;
  auto& un = reinterpret_cast<sockaddr_un&>(out.storage);
  un.sun_family = AF_UNIX;
  const size_t length = std::min(path.size(), sizeof(un.sun_path) - 1);
  std::memcpy(un.sun_path, path.data(), length);
  const bool abstract = path.starts_with('@');
  if (abstract) un.sun_path[0] = '\0';
  // An abstract name has no terminator: its length says where it ends.
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
  return out;
}

}  // namespace

std::optional<SocketAddress> NumericAddress(const Address& address) {
  if (address.IsUnix()) return UnixAddress(std::string_view(address.host).substr(5));
  SocketAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    out.size = sizeof(v4);
    return out;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    out.size = sizeof(v6);
    return out;
  }
  return std::nullopt;
}

Result<std::vector<SocketAddress>> LookUp(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) {
    return Err(Code::kUnavailable, "cannot look up host '{}': {}", address.host,
               gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<SocketAddress> out;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress& one = out.emplace_back();
    std::memcpy(&one.storage, entry->ai_addr, entry->ai_addrlen);
    one.size = entry->ai_addrlen;
  }
  return out;
}

Address ToAddress(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, ntohs(v4.sin_port)};
  }
  if (address.family() == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return {text, ntohs(v6.sin6_port)};
  }
  const auto& un = reinterpret_cast<const sockaddr_un&>(address.storage);
  const size_t head = offsetof(sockaddr_un, sun_path);
  if (address.family() != AF_UNIX || address.size <= head) return {"unix:", 0};
  std::string path(un.sun_path, address.size - head);
  if (path[0] == '\0') {
    path[0] = '@';
  } else {
    path.resize(path.find('\0') == std::string::npos ? path.size() : path.find('\0'));
  }
  return {"unix:" + path, 0};
}

}  // namespace tandem::rt::internal

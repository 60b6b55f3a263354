// Internal to rt: between Address and what the kernel takes.
#ifndef TANDEM_RT_SOCKET_ADDRESS_H_
#define TANDEM_RT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "rt/stream.h"

namespace tandem::rt::internal {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// Unix sockets and numeric addresses; nullopt for names that must be looked up.
std::optional<SocketAddress> NumericAddress(const Address& address);
// Asks the resolver. Blocks.
Result<std::vector<SocketAddress>> LookUp(const Address& address);
Address ToAddress(const SocketAddress& address);

}  // namespace tandem::rt::internal

#endif  // TANDEM_RT_SOCKET_ADDRESS_H_

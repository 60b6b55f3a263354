#include "rt/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <memory>

namespace tandem::rt {

std::string ReachableHost(const std::string& advertised, const std::string& listened) {
  if (!advertised.empty()) return advertised;
  if (!listened.empty() && listened != "0.0.0.0" && listened != "::") return listened;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const unsigned flags = entry->ifa_flags;
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
        (flags & IFF_UP) == 0 || (flags & IFF_LOOPBACK) != 0)
      continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    std::array<char, INET_ADDRSTRLEN> text{};
    if (inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr)
      return text.data();
  }
  return "127.0.0.1";
}

}  // namespace tandem::rt

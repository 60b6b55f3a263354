// Which address others should use to reach this host.
#ifndef TANDEM_RT_HOST_ADDRESS_H_
#define TANDEM_RT_HOST_ADDRESS_H_

#include <string>

namespace tandem::rt {

// `advertised` if given; else `listened`, unless that means "every address" (0.0.0.0, ::, empty):
// then the first address of an interface that is up and not the loopback, or 127.0.0.1 without one.
std::string ReachableHost(const std::string& advertised, const std::string& listened);

}  // namespace tandem::rt

#endif  // TANDEM_RT_HOST_ADDRESS_H_

// Internal to rt: the sockets of a RealRuntime.
#ifndef TANDEM_RT_REAL_NETWORK_H_
#define TANDEM_RT_REAL_NETWORK_H_

#include <memory>

#include "rt/runtime.h"
#include "rt/stream.h"

namespace boost::asio {
class io_context;
}

namespace tandem::rt::internal {

std::unique_ptr<Network> MakeRealNetwork(Runtime& runtime, boost::asio::io_context& io);

}  // namespace tandem::rt::internal

#endif  // TANDEM_RT_REAL_NETWORK_H_

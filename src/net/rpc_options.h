// Bounds and times of the request plane, the same for both sides. docs/contracts/request-plane.md.
#ifndef TANDEM_NET_RPC_OPTIONS_H_
#define TANDEM_NET_RPC_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace tandem::net {

using Bytes = std::vector<std::byte>;

struct RpcOptions {
  size_t max_frame_bytes = 32u << 20;   // a longer frame from a peer breaks the connection
  size_t max_streams = 4096;            // open at once on one connection; beyond: kOverloaded
  uint32_t stream_window = 256u << 10;  // bytes a stream's reader buffers before the sender waits
  size_t max_queued_bytes = 64u << 20;  // waiting for one socket; beyond: the connection breaks
  Duration stall_timeout = std::chrono::seconds(30);  // no credit for so long: the stream ends
  Duration ping_interval = std::chrono::seconds(1);   // of silence, before a ping is sent
  Duration dead_after = std::chrono::seconds(4);      // of silence, before the peer counts as dead
  Duration connect_timeout = std::chrono::seconds(3);
};

}  // namespace tandem::net

#endif  // TANDEM_NET_RPC_OPTIONS_H_

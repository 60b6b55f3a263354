// What a prefill worker tells a decode worker about the KV that it keeps: it travels as the JSON
// object kv_transfer_params, through the frontend, verbatim.
#ifndef TANDEM_XFER_TRANSFER_PARAMS_H_
#define TANDEM_XFER_TRANSFER_PARAMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "kv/ids.h"

namespace tandem::xfer {

struct TransferParams {
  std::string engine_id;     // of the owner
  uint64_t incarnation = 0;  // the owner's life
  kv::LeaseId lease = 0;
  std::string request_id;  // the owner's id of the request, for logs
  std::string host;        // the owner's side channel
  uint16_t port = 0;
  std::vector<kv::BlockRef> blocks;  // in sequence order
  int64_t num_tokens = 0;            // prompt tokens whose KV the blocks hold
  double expiry_seconds = 0;         // when the lease ends, by the owner's monotonic clock
  Duration lease_duration = std::chrono::seconds(30);
};

// Names in the JSON object. Those of the reference's pull connector first: do_remote_prefill is
// true and do_remote_decode false, block ids are a list of one list, tp_size is 1. Then ours:
// lease and incarnation are strings of 16 hexadecimal digits, because a number beyond 2^53 does
// not survive every JSON library; generations is one number per block id.
inline constexpr std::string_view kDoRemotePrefill = "do_remote_prefill";
inline constexpr std::string_view kDoRemoteDecode = "do_remote_decode";
inline constexpr std::string_view kRemoteEngineId = "remote_engine_id";
inline constexpr std::string_view kRemoteBlockIds = "remote_block_ids";
inline constexpr std::string_view kRemoteRequestId = "remote_request_id";
inline constexpr std::string_view kRemoteHost = "remote_host";
inline constexpr std::string_view kRemotePort = "remote_port";
inline constexpr std::string_view kTpSize = "tp_size";
inline constexpr std::string_view kRemoteNumTokens = "remote_num_tokens";
inline constexpr std::string_view kRemoteBlocksExpiryTime = "remote_blocks_expiry_time";
inline constexpr std::string_view kLease = "lease";
inline constexpr std::string_view kIncarnation = "incarnation";
inline constexpr std::string_view kGenerations = "generations";
inline constexpr std::string_view kLeaseSeconds = "lease_seconds";

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_TRANSFER_PARAMS_H_

// The side channel's messages and their bytes (docs/contracts/hand-over.md). A frame is
//   u32 length of the body, u8 type, body
// with little-endian integers, and strings as u16 length + bytes. Decoders take hostile bytes:
// every count is checked against the bytes that are there. Bytes after the fields known here are
// those of a later minor version and are ignored.
#ifndef TANDEM_XFER_SIDE_CHANNEL_H_
#define TANDEM_XFER_SIDE_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/ids.h"
#include "kv/lease_table.h"
#include "xfer/identity.h"

namespace tandem::xfer {

inline constexpr uint16_t kProtocolMajor = 1;
inline constexpr uint16_t kProtocolMinor = 0;
inline constexpr size_t kFrameHeaderBytes = 5;
inline constexpr size_t kMaxBlocksPerOpen = 131072;  // 2 million tokens in blocks of 16
inline constexpr size_t kMaxLeasesPerHeartbeat = 4096;
// Of all frames but data: the largest Open.
inline constexpr size_t kMaxBodyBytes = 64 + kMaxBlocksPerOpen * 12;
inline constexpr size_t kMaxDataBytes = size_t{1} << 20;

enum class MessageType : uint8_t {
  kHello = 1,          // reader: who I am
  kWelcome = 2,        // owner: who I am
  kError = 3,          // owner: instead of any other answer
  kOpen = 4,           // reader
  kOpened = 5,         // owner; with `stream` data frames follow until all blocks are sent
  kData = 6,           // owner: at most kMaxDataBytes of block bytes, in the order of Open
  kClose = 7,          // reader
  kClosed = 8,         // owner
  kHeartbeat = 9,      // reader
  kHeartbeatAck = 10,  // owner
  kRelease = 11,       // reader
  kReleased = 12,      // owner
};

struct Hello {
  uint16_t major = kProtocolMajor;
  uint16_t minor = kProtocolMinor;
  std::string build;
  KvIdentity identity;
  std::string engine_id;
};

struct Welcome {
  uint16_t major = kProtocolMajor;
  uint16_t minor = kProtocolMinor;
  std::string build;
  KvIdentity identity;
  std::string engine_id;
  uint64_t incarnation = 0;
  uint32_t blocks = 0;
  uint64_t lease_ms = 0;
  std::string shm_address;  // empty: only tcp
  uint64_t shm_token = 0;
};

struct OpenRequest {
  kv::LeaseId lease = 0;
  uint64_t incarnation = 0;
  bool stream = false;
  std::vector<kv::BlockRef> blocks;
};

struct Opened {
  kv::PinId pin = 0;
};

struct CloseRequest {
  kv::PinId pin = 0;
  bool release = false;
};

struct Closed {
  kv::CloseAnswer answer = kv::CloseAnswer::kStale;
};

struct Heartbeat {
  std::vector<kv::LeaseId> leases;
};

struct HeartbeatAck {
  uint32_t held = 0;
};

struct ReleaseRequest {
  kv::LeaseId lease = 0;
};

struct Released {
  bool was_held = false;
};

using Frame = std::vector<std::byte>;  // header and body

Frame Encode(const Hello& message);
Frame Encode(const Welcome& message);
Frame Encode(const Error& message);
Frame Encode(const OpenRequest& message);
Frame Encode(const Opened& message);
Frame Encode(const CloseRequest& message);
Frame Encode(const Closed& message);
Frame Encode(const Heartbeat& message);
Frame Encode(const HeartbeatAck& message);
Frame Encode(const ReleaseRequest& message);
Frame Encode(const Released& message);
// The header alone; the bytes follow from where they lie.
Frame EncodeDataHeader(size_t bytes);

// Decode<Hello>(body): kCorrupt if the bytes are not that message.
template <class T>
Result<T> Decode(std::span<const std::byte> body);

struct FrameHeader {
  MessageType type = MessageType::kError;
  size_t body_bytes = 0;
};
// kCorrupt for unknown types and for bodies beyond the bounds above.
Result<FrameHeader> DecodeHeader(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_SIDE_CHANNEL_H_

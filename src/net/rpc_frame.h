// Frames of the request plane: how they look on the wire, and a reader for untrusted bytes.
// docs/contracts/request-plane.md is the contract.
#ifndef TANDEM_NET_RPC_FRAME_H_
#define TANDEM_NET_RPC_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/rpc_options.h"

namespace tandem::net {

inline constexpr uint32_t kRpcMajor = 1;
inline constexpr uint32_t kRpcMinor = 0;

// Types unknown to a reader are skipped, so that a minor version can add some.
enum class FrameType : uint8_t {
  kHello = 1,
  kOpen = 2,
  kData = 3,
  kCredit = 4,
  kEnd = 5,
  kCancel = 6,
  kPing = 7,
  kPong = 8,
  kGoAway = 9,
};

// A view of a frame; `body` is valid until the reader moves on.
struct Frame {
  FrameType type{};
  uint32_t stream = 0;  // 0 for frames about the connection
  std::span<const std::byte> body;
};

inline constexpr size_t kFrameHeaderBytes = 9;  // u32 length of the body, u8 type, u32 stream

// What an item takes from a stream's credit beside its bytes, so that empty ones are bounded too.
inline constexpr size_t kItemCost = 32;

struct HelloFrame {
  uint32_t major = kRpcMajor;
  uint32_t minor = kRpcMinor;
  std::string build;
  uint32_t window = 0;  // credit that each stream towards the sender starts with
};

struct OpenFrame {
  std::string_view method;
  std::string_view request_id;
  std::optional<int64_t> remaining_ms;  // until the deadline; absent: none
  std::span<const std::byte> payload;
};

// Appends whole frames to `out`.
void AppendFrame(std::vector<std::byte>& out, FrameType type, uint32_t stream,
                 std::span<const std::byte> body = {});
void AppendHello(std::vector<std::byte>& out, uint32_t window);
void AppendOpen(std::vector<std::byte>& out, uint32_t stream, const OpenFrame& open);
void AppendCredit(std::vector<std::byte>& out, uint32_t stream, uint32_t bytes);
void AppendEnd(std::vector<std::byte>& out, uint32_t stream, const Status& status);

// kCorrupt for bodies that do not have the frame's shape. Unknown fields are ignored.
Result<HelloFrame> ParseHello(std::span<const std::byte> body);
Result<OpenFrame> ParseOpen(std::span<const std::byte> body);  // views into `body`
Result<uint32_t> ParseCredit(std::span<const std::byte> body);
struct EndFrame {
  Status status;
};
Result<EndFrame> ParseEnd(std::span<const std::byte> body);

// Cuts a byte stream into frames. Memory grows with the bytes that came, never with what a length
// field promises, up to one frame of the maximum.
class FrameReader {
 public:
  explicit FrameReader(size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  // Room for the next read; invalidates the frames given out. Then Commit what was read.
  std::span<std::byte> Space();
  void Commit(size_t bytes) { end_ += bytes; }
  // The next whole frame, or nullopt if more bytes are needed. kCorrupt: give the connection up.
  Result<std::optional<Frame>> Next();

 private:
  size_t max_body_bytes_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_RPC_FRAME_H_

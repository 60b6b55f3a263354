#include "net/rpc_frame.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "wire/msgpack.h"

namespace tandem::net {
namespace {

constexpr std::string_view kMagic = "tandem-rpc";
constexpr size_t kFirstBuffer = 16 * 1024;
constexpr size_t kKeptBuffer = 256 * 1024;
constexpr size_t kMinSpace = 4 * 1024;
constexpr size_t kMaxMessageBytes = 4096;  // of an error that crosses the wire

void PutLittle(std::byte* at, uint32_t v) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(v >> (8 * i));
}

uint32_t GetLittle(const std::byte* at) {
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i) v |= static_cast<uint32_t>(at[i]) << (8 * i);
  return v;
}

// Writes the header when its frame is complete, so that bodies are built in place.
class FrameWriter {
 public:
  FrameWriter(std::vector<std::byte>& out, FrameType type, uint32_t stream)
      : out_(out), start_(out.size()) {
    out.resize(start_ + kFrameHeaderBytes);
    out[start_ + 4] = static_cast<std::byte>(type);
    PutLittle(&out[start_ + 5], stream);
  }
  ~FrameWriter() {
    PutLittle(&out_[start_], static_cast<uint32_t>(out_.size() - start_ - kFrameHeaderBytes));
  }
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

 private:
  std::vector<std::byte>& out_;
  size_t start_;
};

// Reads a map with string keys. `field(key, reader)` consumes the value and answers true, or leaves
// it alone and answers false.
template <class Field>
Status ReadMap(std::span<const std::byte> body, Field field) {
  wire::MsgpackReader reader(body);
  TRY_ASSIGN(const size_t pairs, reader.Map());
  for (size_t i = 0; i < pairs; ++i) {
    TRY_ASSIGN(const std::string_view key, reader.Str());
    TRY_ASSIGN(const bool known, field(key, reader));
    if (!known) TRY(reader.Skip());
  }
  return Status();
}

Result<uint32_t> ReadUint32(wire::MsgpackReader& reader) {
  TRY_ASSIGN(const uint64_t v, reader.Uint());
  if (v > std::numeric_limits<uint32_t>::max())
    return Err(Code::kCorrupt, "a number of a frame is out of range: {}", v);
  return static_cast<uint32_t>(v);
}

}  // namespace

void AppendFrame(std::vector<std::byte>& out, FrameType type, uint32_t stream,
                 std::span<const std::byte> body) {
  const FrameWriter frame(out, type, stream);
  out.insert(out.end(), body.begin(), body.end());
}

void AppendHello(std::vector<std::byte>& out, uint32_t window) {
  const FrameWriter frame(out, FrameType::kHello, 0);
  wire::MsgpackWriter writer(out);
  writer.Map(5);
  writer.Str("magic");
  writer.Str(kMagic);
  writer.Str("major");
  writer.Uint(kRpcMajor);
  writer.Str("minor");
  writer.Uint(kRpcMinor);
  writer.Str("build");
  writer.Str(TANDEM_BUILD);
  writer.Str("window");
  writer.Uint(window);
}

void AppendOpen(std::vector<std::byte>& out, uint32_t stream, const OpenFrame& open) {
  const FrameWriter frame(out, FrameType::kOpen, stream);
  wire::MsgpackWriter writer(out);
  writer.Map(open.remaining_ms ? 4 : 3);
  writer.Str("method");
  writer.Str(open.method);
  writer.Str("request_id");
  writer.Str(open.request_id);
  if (open.remaining_ms) {
    writer.Str("remaining_ms");
    writer.Int(*open.remaining_ms);
  }
  writer.Str("payload");
  writer.Bin(open.payload);
}

void AppendCredit(std::vector<std::byte>& out, uint32_t stream, uint32_t bytes) {
  std::byte body[4];
  PutLittle(body, bytes);
  AppendFrame(out, FrameType::kCredit, stream, body);
}

void AppendEnd(std::vector<std::byte>& out, uint32_t stream, const Status& status) {
  const FrameWriter frame(out, FrameType::kEnd, stream);
  wire::MsgpackWriter writer(out);
  writer.Map(status ? 1 : 3);
  writer.Str("code");
  writer.Uint(status ? 0 : static_cast<uint64_t>(status.error().code));
  if (status) return;
  writer.Str("message");
  writer.Str(std::string_view(status.error().message).substr(0, kMaxMessageBytes));
  writer.Str("param");
  writer.Str(std::string_view(status.error().param).substr(0, kMaxMessageBytes));
}

Result<HelloFrame> ParseHello(std::span<const std::byte> body) {
  HelloFrame hello;
  bool magic = false;
  const auto field = [&](std::string_view key, wire::MsgpackReader& reader) -> Result<bool> {
    if (key == "magic") {
      TRY_ASSIGN(const std::string_view text, reader.Str());
      magic = text == kMagic;
    } else if (key == "major") {
      TRY_ASSIGN(hello.major, ReadUint32(reader));
    } else if (key == "minor") {
      TRY_ASSIGN(hello.minor, ReadUint32(reader));
    } else if (key == "build") {
      TRY_ASSIGN(hello.build, reader.Str());
    } else if (key == "window") {
      TRY_ASSIGN(hello.window, ReadUint32(reader));
    } else {
      return false;
    }
    return true;
  };
  TRY(ReadMap(body, field));
  if (!magic) return Err(Code::kCorrupt, "the peer does not speak the request plane");
  return hello;
}

Result<OpenFrame> ParseOpen(std::span<const std::byte> body) {
  OpenFrame open;
  const auto field = [&](std::string_view key, wire::MsgpackReader& reader) -> Result<bool> {
    if (key == "method") {
      TRY_ASSIGN(open.method, reader.Str());
    } else if (key == "request_id") {
      TRY_ASSIGN(open.request_id, reader.Str());
    } else if (key == "remaining_ms") {
      TRY_ASSIGN(open.remaining_ms, reader.Int());
    } else if (key == "payload") {
      TRY_ASSIGN(open.payload, reader.Bin());
    } else {
      return false;
    }
    return true;
  };
  TRY(ReadMap(body, field));
  return open;
}

Result<uint32_t> ParseCredit(std::span<const std::byte> body) {
  if (body.size() != 4)
    return Err(Code::kCorrupt, "a credit frame has {} bytes instead of 4", body.size());
  return GetLittle(body.data());
}

Result<EndFrame> ParseEnd(std::span<const std::byte> body) {
  Error error;
  uint32_t code = 0;
  const auto field = [&](std::string_view key, wire::MsgpackReader& reader) -> Result<bool> {
    if (key == "code") {
      TRY_ASSIGN(code, ReadUint32(reader));
    } else if (key == "message") {
      TRY_ASSIGN(error.message, reader.Str());
    } else if (key == "param") {
      TRY_ASSIGN(error.param, reader.Str());
    } else {
      return false;
    }
    return true;
  };
  TRY(ReadMap(body, field));
  if (code == 0) return EndFrame{};
  // A code of a later version is an internal error to us; the message still tells.
  error.code =
      code <= static_cast<uint32_t>(Code::kInternal) ? static_cast<Code>(code) : Code::kInternal;
  return EndFrame{std::unexpected(std::move(error))};
}

std::span<std::byte> FrameReader::Space() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size() > kKeptBuffer) buffer_ = {};
  }
  if (buffer_.size() - end_ < kMinSpace && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kMinSpace) buffer_.resize(std::max(kFirstBuffer, buffer_.size() * 2));
  return std::span(buffer_).subspan(end_);
}

Result<std::optional<Frame>> FrameReader::Next() {
  const size_t have = end_ - begin_;
  if (have < kFrameHeaderBytes) return std::nullopt;
  const std::byte* at = buffer_.data() + begin_;
  const size_t length = GetLittle(at);
  if (length > max_body_bytes_) {
    return Err(Code::kCorrupt, "a frame of {} bytes is longer than the limit of {}", length,
               max_body_bytes_);
  }
  if (have < kFrameHeaderBytes + length) return std::nullopt;
  begin_ += kFrameHeaderBytes + length;
  return Frame{static_cast<FrameType>(at[4]), GetLittle(at + 5), {at + kFrameHeaderBytes, length}};
}

}  // namespace tandem::net

#include "xfer/side_channel.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace tandem::xfer {
namespace {

constexpr uint32_t kMagic = 0x564b4454;  // "TDKV" in the order of the bytes
constexpr size_t kMaxString = 1024;

class Writer {
 public:
  explicit Writer(MessageType type) {
    Put<uint32_t>(0);
    Put(static_cast<uint8_t>(type));
  }
  template <class T>
    requires std::is_unsigned_v<T>
  void Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      frame_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void Text(std::string_view text) {
    text = text.substr(0, kMaxString);
    Put(static_cast<uint16_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text));
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  }
  void Identity(const KvIdentity& id) {
    Text(id.model_digest);
    Text(id.layout_id);
    Text(id.dtype);
    Put(id.block_tokens);
    Put(id.block_bytes);
    Text(id.numerics_id);
  }
  Frame Finish(size_t body_bytes) {
    for (size_t i = 0; i < 4; ++i) frame_[i] = static_cast<std::byte>(body_bytes >> (8 * i));
    return std::move(frame_);
  }
  Frame Finish() { return Finish(frame_.size() - kFrameHeaderBytes); }

 private:
  Frame frame_;
};

// Reads fields until one does not fit; from then on everything is zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
    requires std::is_unsigned_v<T>
  T Get() {
    if (!Has(sizeof(T))) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes_[i]) << (8 * i)));
    }
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::string Text() {
    const size_t size = Get<uint16_t>();
    if (size > kMaxString || !Has(size)) {
      ok_ = false;
      return {};
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }
  KvIdentity Identity() {
    KvIdentity id;
    id.model_digest = Text();
    id.layout_id = Text();
    id.dtype = Text();
    id.block_tokens = Get<uint32_t>();
    id.block_bytes = Get<uint64_t>();
    id.numerics_id = Text();
    return id;
  }
  // A count of items of a known size that must all be there.
  size_t Count(size_t item_bytes, size_t limit) {
    const size_t count = Get<uint32_t>();
    if (count > limit || !Has(count * item_bytes)) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  bool ok() const { return ok_; }
  void Fail() { ok_ = false; }

 private:
  bool Has(size_t n) {
    if (n > bytes_.size()) ok_ = false;
    return ok_;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

template <class T>
Result<T> Checked(const Reader& reader, T value, std::string_view name) {
  if (!reader.ok()) return Err(Code::kCorrupt, "a damaged {} message on the KV side channel", name);
  return value;
}

void Read(Reader& r, Hello& m) {
  if (r.Get<uint32_t>() != kMagic) r.Fail();
  m.major = r.Get<uint16_t>();
  m.minor = r.Get<uint16_t>();
  m.build = r.Text();
  // The rest of another major version may look different; whoever decodes looks at `major` first.
  if (m.major != kProtocolMajor) return;
  m.identity = r.Identity();
  m.engine_id = r.Text();
}

void Read(Reader& r, Welcome& m) {
  if (r.Get<uint32_t>() != kMagic) r.Fail();
  m.major = r.Get<uint16_t>();
  m.minor = r.Get<uint16_t>();
  m.build = r.Text();
  if (m.major != kProtocolMajor) return;
  m.identity = r.Identity();
  m.engine_id = r.Text();
  m.incarnation = r.Get<uint64_t>();
  m.blocks = r.Get<uint32_t>();
  m.lease_ms = r.Get<uint64_t>();
  m.shm_address = r.Text();
  m.shm_token = r.Get<uint64_t>();
}

void Read(Reader& r, OpenRequest& m) {
  m.lease = r.Get<uint64_t>();
  m.incarnation = r.Get<uint64_t>();
  m.stream = r.Get<uint8_t>() != 0;
  const size_t count = r.Count(12, kMaxBlocksPerOpen);
  m.blocks.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto block = static_cast<kv::BlockId>(r.Get<uint32_t>());
    m.blocks.push_back({block, r.Get<uint64_t>()});
  }
}

void Read(Reader& r, Heartbeat& m) {
  const size_t count = r.Count(8, kMaxLeasesPerHeartbeat);
  m.leases.reserve(count);
  for (size_t i = 0; i < count; ++i) m.leases.push_back(r.Get<uint64_t>());
}

}  // namespace

Frame Encode(const Hello& m) {
  Writer w(MessageType::kHello);
  w.Put(kMagic);
  w.Put(m.major);
  w.Put(m.minor);
  w.Text(m.build);
  w.Identity(m.identity);
  w.Text(m.engine_id);
  return w.Finish();
}

Frame Encode(const Welcome& m) {
  Writer w(MessageType::kWelcome);
  w.Put(kMagic);
  w.Put(m.major);
  w.Put(m.minor);
  w.Text(m.build);
  w.Identity(m.identity);
  w.Text(m.engine_id);
  w.Put(m.incarnation);
  w.Put(m.blocks);
  w.Put(m.lease_ms);
  w.Text(m.shm_address);
  w.Put(m.shm_token);
  return w.Finish();
}

Frame Encode(const Error& m) {
  Writer w(MessageType::kError);
  w.Put(static_cast<uint32_t>(m.code));
  w.Text(m.message);
  return w.Finish();
}

Frame Encode(const OpenRequest& m) {
  Writer w(MessageType::kOpen);
  w.Put(m.lease);
  w.Put(m.incarnation);
  w.Put(static_cast<uint8_t>(m.stream));
  w.Put(static_cast<uint32_t>(m.blocks.size()));
  for (const kv::BlockRef& ref : m.blocks) {
    w.Put(static_cast<uint32_t>(ref.block));
    w.Put(ref.generation);
  }
  return w.Finish();
}

Frame Encode(const Opened& m) {
  Writer w(MessageType::kOpened);
  w.Put(m.pin);
  return w.Finish();
}

Frame Encode(const CloseRequest& m) {
  Writer w(MessageType::kClose);
  w.Put(m.pin);
  w.Put(static_cast<uint8_t>(m.release));
  return w.Finish();
}

Frame Encode(const Closed& m) {
  Writer w(MessageType::kClosed);
  w.Put(static_cast<uint8_t>(m.answer == kv::CloseAnswer::kValid));
  return w.Finish();
}

Frame Encode(const Heartbeat& m) {
  Writer w(MessageType::kHeartbeat);
  w.Put(static_cast<uint32_t>(m.leases.size()));
  for (const kv::LeaseId lease : m.leases) w.Put(lease);
  return w.Finish();
}

Frame Encode(const HeartbeatAck& m) {
  Writer w(MessageType::kHeartbeatAck);
  w.Put(m.held);
  return w.Finish();
}

Frame Encode(const ReleaseRequest& m) {
  Writer w(MessageType::kRelease);
  w.Put(m.lease);
  return w.Finish();
}

Frame Encode(const Released& m) {
  Writer w(MessageType::kReleased);
  w.Put(static_cast<uint8_t>(m.was_held));
  return w.Finish();
}

Frame EncodeDataHeader(size_t bytes) { return Writer(MessageType::kData).Finish(bytes); }

template <>
Result<Hello> Decode(std::span<const std::byte> body) {
  Reader r(body);
  Hello m;
  Read(r, m);
  return Checked(r, std::move(m), "hello");
}

template <>
Result<Welcome> Decode(std::span<const std::byte> body) {
  Reader r(body);
  Welcome m;
  Read(r, m);
  return Checked(r, std::move(m), "welcome");
}

template <>
Result<Error> Decode(std::span<const std::byte> body) {
  Reader r(body);
  const uint32_t code = r.Get<uint32_t>();
  Error m;
  // A number that this build does not know, or "no error", still is a failure.
  const bool known = code > 0 && code <= static_cast<uint32_t>(Code::kInternal);
  m.code = known ? static_cast<Code>(code) : Code::kInternal;
  m.message = r.Text();
  return Checked(r, std::move(m), "error");
}

template <>
Result<OpenRequest> Decode(std::span<const std::byte> body) {
  Reader r(body);
  OpenRequest m;
  Read(r, m);
  return Checked(r, std::move(m), "open");
}

template <>
Result<Opened> Decode(std::span<const std::byte> body) {
  Reader r(body);
  const Opened m{r.Get<uint64_t>()};
  return Checked(r, m, "opened");
}

template <>
Result<CloseRequest> Decode(std::span<const std::byte> body) {
  Reader r(body);
  CloseRequest m;
  m.pin = r.Get<uint64_t>();
  m.release = r.Get<uint8_t>() != 0;
  return Checked(r, m, "close");
}

template <>
Result<Closed> Decode(std::span<const std::byte> body) {
  Reader r(body);
  // Anything but the one value that says valid is stale.
  const bool valid = r.Get<uint8_t>() == 1;
  const Closed m{valid ? kv::CloseAnswer::kValid : kv::CloseAnswer::kStale};
  return Checked(r, m, "closed");
}

template <>
Result<Heartbeat> Decode(std::span<const std::byte> body) {
  Reader r(body);
  Heartbeat m;
  Read(r, m);
  return Checked(r, std::move(m), "heartbeat");
}

template <>
Result<HeartbeatAck> Decode(std::span<const std::byte> body) {
  Reader r(body);
  const HeartbeatAck m{r.Get<uint32_t>()};
  return Checked(r, m, "heartbeat answer");
}

template <>
Result<ReleaseRequest> Decode(std::span<const std::byte> body) {
  Reader r(body);
  const ReleaseRequest m{r.Get<uint64_t>()};
  return Checked(r, m, "release");
}

template <>
Result<Released> Decode(std::span<const std::byte> body) {
  Reader r(body);
  const Released m{r.Get<uint8_t>() != 0};
  return Checked(r, m, "released");
}

Result<FrameHeader> DecodeHeader(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Reader r(bytes);
  const size_t size = r.Get<uint32_t>();
  const uint8_t type = r.Get<uint8_t>();
  if (type < static_cast<uint8_t>(MessageType::kHello) ||
      type > static_cast<uint8_t>(MessageType::kReleased)) {
    return Err(Code::kCorrupt, "frame type {} on the KV side channel is unknown", type);
  }
  const auto kind = static_cast<MessageType>(type);
  const size_t limit = kind == MessageType::kData ? kMaxDataBytes : kMaxBodyBytes;
  if (size > limit) {
    return Err(Code::kCorrupt, "a frame of {} bytes on the KV side channel, at most {} are allowed",
               size, limit);
  }
  return FrameHeader{kind, size};
}

}  // namespace tandem::xfer

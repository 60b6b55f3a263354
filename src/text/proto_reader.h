// Walks over the fields of a protocol buffer message (the wire format of proto2).
#ifndef TANDEM_TEXT_PROTO_READER_H_
#define TANDEM_TEXT_PROTO_READER_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::text {

struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;      // a varint or fixed number, as its bits
  std::string_view bytes;  // a string, a byte string or a message
  bool has_bytes = false;

  float AsFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }
  int32_t AsInt() const { return static_cast<int32_t>(static_cast<uint32_t>(value)); }
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  // The next field; nothing at the end, or where the message is damaged (see ok).
  std::optional<ProtoField> Next() {
    if (rest_.empty() || !ok_) return std::nullopt;
    ProtoField field;
    const uint64_t key = Varint();
    field.number = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        field.value = Varint();
        break;
      case 1:
        field.value = Fixed(8);
        break;
      case 2:
        field.has_bytes = true;
        field.bytes = Bytes(Varint());
        break;
      case 5:
        field.value = Fixed(4);
        break;
      default:
        ok_ = false;
    }
    if (!ok_) return std::nullopt;
    return field;
  }

  bool ok() const { return ok_; }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint64_t Fixed(size_t size) {
    const std::string_view bytes = Bytes(size);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    }
    return value;
  }
  std::string_view Bytes(uint64_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_PROTO_READER_H_

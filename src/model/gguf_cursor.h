// A bounds-checked reading position in the bytes of a GGUF file.
#ifndef TANDEM_MODEL_GGUF_CURSOR_H_
#define TANDEM_MODEL_GGUF_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::model {

static_assert(std::endian::native == std::endian::little, "GGUF values are copied as they lie");

// Text from the file for use in a message: at most 80 bytes, everything but printable ASCII
// escaped.
std::string Printable(std::string_view text);

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string_view label)
      : bytes_(bytes), label_(label) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }

  // Reads a fixed-size value; `what` says in the error what was being read.
  template <class T>
  Result<T> Read(std::string_view what) {
    TRY_ASSIGN(const std::span<const std::byte> bytes, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  Result<std::span<const std::byte>> Take(uint64_t size, std::string_view what) {
    if (size > left())
      return Err(Code::kCorrupt, "{}: truncated: {} needs {} bytes at byte {}, the file has {}",
                 label_, what, size, offset_, bytes_.size());
    const std::span<const std::byte> taken = bytes_.subspan(offset_, static_cast<size_t>(size));
    offset_ += static_cast<size_t>(size);
    return taken;
  }

  // A 64-bit length and that many bytes, at most `limit`.
  Result<std::string_view> ReadString(uint64_t limit, std::string_view what) {
    TRY_ASSIGN(const uint64_t size, Read<uint64_t>(what));
    if (size > limit)
      return Err(Code::kCorrupt, "{}: {} at byte {} has length {}, the limit is {}", label_, what,
                 offset_, size, limit);
    TRY_ASSIGN(const std::span<const std::byte> bytes, Take(size, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view label_;
  size_t offset_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_GGUF_CURSOR_H_

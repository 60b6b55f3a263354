// Well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
#ifndef TANDEM_WIRE_UTF8_H_
#define TANDEM_WIRE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::wire {

// Bytes of the character that `text` starts with; 0 if it starts with none. `text` is not empty.
inline size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    const uint8_t low = b == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = b == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    const uint8_t low = b == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = b == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace tandem::wire

#endif  // TANDEM_WIRE_UTF8_H_

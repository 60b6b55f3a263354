// Reading UTF-8 that is known to be valid, without checking it again.
#ifndef TANDEM_TEXT_UTF8_SCAN_H_
#define TANDEM_TEXT_UTF8_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::text {

struct ScannedChar {
  char32_t value;
  uint32_t bytes;
};

// `at` points at the first byte of a character.
inline ScannedChar ScanChar(const char* at) {
  const auto byte = [at](int i) { return static_cast<uint8_t>(at[i]); };
  const auto low = [&](int i) { return char32_t{byte(i)} & 0x3F; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1FU) << 6 | low(1), 2};
  if (lead < 0xF0) return {(lead & 0xFU) << 12 | low(1) << 6 | low(2), 3};
  return {(lead & 7U) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

inline uint32_t CharBytes(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Where the character that ends before `at` begins; `at` is above 0.
inline size_t PreviousChar(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

}  // namespace tandem::text

#endif  // TANDEM_TEXT_UTF8_SCAN_H_

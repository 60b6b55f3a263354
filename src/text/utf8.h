// UTF-8 helpers. "Lossy" follows the Unicode maximal-subpart rule: each longest prefix of a
// well-formed sequence that is cut short becomes one U+FFFD, as does every other wrong byte.
#ifndef TANDEM_TEXT_UTF8_H_
#define TANDEM_TEXT_UTF8_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsValidUtf8(std::string_view bytes);

struct CodePoint {
  char32_t value;
  uint32_t bytes;  // consumed, at least 1
  bool valid;      // else value is U+FFFD
};

// The code point at the front of `bytes`, which is not empty.
CodePoint DecodeUtf8(std::string_view bytes);
// Appends the UTF-8 form; a surrogate or a number above 10FFFF is written as U+FFFD.
void AppendUtf8(char32_t code_point, std::string& out);
// Number of code points of valid UTF-8.
size_t CountCodePoints(std::string_view text);
// Byte offset of code point number `index` of valid UTF-8, text.size() where there are fewer.
size_t OffsetOfCodePoint(std::string_view text, size_t index);
void AppendLossy(std::string_view bytes, std::string& out);

// The lossy form of bytes that arrive in pieces: holds back at most three bytes.
class Utf8Decoder {
 public:
  void Push(std::string_view bytes, std::string& out);
  void Flush(std::string& out);

 private:
  std::array<char, 4> held_{};
  size_t held_size_ = 0;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_UTF8_H_

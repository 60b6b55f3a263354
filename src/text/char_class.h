// What a pre-tokeniser needs to know about a character.
#ifndef TANDEM_TEXT_CHAR_CLASS_H_
#define TANDEM_TEXT_CHAR_CLASS_H_

#include <array>
#include <cstdint>

namespace tandem::text {

enum class CharClass : uint8_t {
  kLetter,       // \p{L}
  kNumber,       // \p{N}
  kSpace,        // \s: White_Space
  kPunctuation,  // \p{P}
  kOther,        // symbols, marks, controls, unassigned
};

CharClass ClassOfWide(char32_t code_point);

namespace internal {
constexpr CharClass ClassOfAscii(uint8_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  if (c == ' ' || (c >= 9 && c <= 13)) return CharClass::kSpace;
  // These are symbols in Unicode's eyes; every other printable ASCII character is punctuation.
  if (c < 32 || c == 127) return CharClass::kOther;
  for (const char symbol : {'$', '+', '<', '=', '>', '^', '`', '|', '~'}) {
    if (c == symbol) return CharClass::kOther;
  }
  return CharClass::kPunctuation;
}

constexpr std::array<CharClass, 128> MakeAsciiClasses() {
  std::array<CharClass, 128> classes{};
  for (uint8_t c = 0; c < 128; ++c) classes[c] = ClassOfAscii(c);
  return classes;
}
inline constexpr std::array<CharClass, 128> kAsciiClasses = MakeAsciiClasses();
}  // namespace internal

inline CharClass ClassOf(char32_t code_point) {
  return code_point < 128 ? internal::kAsciiClasses[code_point] : ClassOfWide(code_point);
}

}  // namespace tandem::text

#endif  // TANDEM_TEXT_CHAR_CLASS_H_

// General categories of Unicode 16, and which characters normalisation form C may touch.
#ifndef TANDEM_TEXT_UNICODE_TABLE_H_
#define TANDEM_TEXT_UNICODE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::text {

// In the order of the generated table.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo
};
using CategoryMask = uint32_t;  // bit i: category i

constexpr CategoryMask MaskOf(Category category) { return 1U << static_cast<unsigned>(category); }
constexpr CategoryMask MaskOf(Category first, Category last) {
  return (MaskOf(last) << 1) - MaskOf(first);
}
inline constexpr CategoryMask kLetters = MaskOf(Category::kLu, Category::kLo);
inline constexpr CategoryMask kMarks = MaskOf(Category::kMn, Category::kMe);
inline constexpr CategoryMask kNumbers = MaskOf(Category::kNd, Category::kNo);
inline constexpr CategoryMask kPunctuation = MaskOf(Category::kPc, Category::kPo);
inline constexpr CategoryMask kSymbols = MaskOf(Category::kSm, Category::kSo);
inline constexpr CategoryMask kSeparators = MaskOf(Category::kZs, Category::kZp);
inline constexpr CategoryMask kOthers =
    MaskOf(Category::kCc, Category::kCo) | MaskOf(Category::kCn);

namespace internal {
extern const uint32_t kCategoryStarts[];  // code point << 5 | category, at each change
extern const size_t kCategoryStartCount;
extern const char32_t kUnsafeForNfc[][2];  // first and last of each range
extern const size_t kUnsafeForNfcCount;

inline constexpr char32_t kCodePoints = 0x110000;
inline constexpr uint8_t kNfcBit = 0x80;  // beside the category
// One byte a code point; made at first use.
const uint8_t* UnicodeBytes();
}  // namespace internal

// `code_point` is below 0x110000.
inline Category CategoryOf(char32_t code_point) {
  static const uint8_t* const kBytes = internal::UnicodeBytes();
  return static_cast<Category>(kBytes[code_point] & 0x1F);
}
inline bool IsIn(char32_t code_point, CategoryMask mask) {
  return (MaskOf(CategoryOf(code_point)) & mask) != 0;
}
// False: form C leaves the character as it is wherever it stands, and nothing joins across it.
inline bool MayChangeUnderNfc(char32_t code_point) {
  static const uint8_t* const kBytes = internal::UnicodeBytes();
  return (kBytes[code_point] & internal::kNfcBit) != 0;
}

// White_Space; what regular expressions mean by \s.
bool IsWhiteSpace(char32_t code_point);
// Letters, marks, decimal digits, letter numbers, connectors, circled letters: Unicode's "word"
// without its two joining controls.
bool IsWord(char32_t code_point);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_UNICODE_TABLE_H_

#include <algorithm>

#include "text/unicode_table.h"

namespace tandem::text {
namespace internal {
namespace {

std::vector<uint8_t> MakeBytes() {
  std::vector<uint8_t> bytes(kCodePoints);
  for (size_t i = 0; i < kCategoryStartCount; ++i) {
    const size_t first = kCategoryStarts[i] >> 5;
    const size_t end = i + 1 < kCategoryStartCount ? kCategoryStarts[i + 1] >> 5 : kCodePoints;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(first),
              bytes.begin() + static_cast<std::ptrdiff_t>(end),
              static_cast<uint8_t>(kCategoryStarts[i] & 0x1F));
  }
  for (size_t i = 0; i < kUnsafeForNfcCount; ++i) {
    for (char32_t c = kUnsafeForNfc[i][0]; c <= kUnsafeForNfc[i][1]; ++c) bytes[c] |= kNfcBit;
  }
  return bytes;
}

}  // namespace

const uint8_t* UnicodeBytes() {
  static const std::vector<uint8_t>& bytes = *new std::vector<uint8_t>(MakeBytes());
  return bytes.data();
}

}  // namespace internal

bool IsWhiteSpace(char32_t code_point) {
  if (code_point < 128) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  // Beyond the separators only NEL above ASCII.
  return code_point == 0x85 || IsIn(code_point, kSeparators);
}

bool IsWord(char32_t code_point) {
  constexpr CategoryMask kWord =
      kLetters | kMarks | MaskOf(Category::kNd) | MaskOf(Category::kNl) | MaskOf(Category::kPc);
  if (IsIn(code_point, kWord)) return true;
  return (code_point >= 0x24B6 && code_point <= 0x24E9) ||
         (code_point >= 0x1F130 && code_point <= 0x1F149) ||
         (code_point >= 0x1F150 && code_point <= 0x1F169) ||
         (code_point >= 0x1F170 && code_point <= 0x1F189);
}

}  // namespace tandem::text

#include "text/char_class.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace tandem::text {

namespace {

struct Range {
  char32_t first;
  char32_t last;
  CharClass cls;
};

// Letters and numbers of Unicode 15.1 and 16, which tokenisers know and Debian's utf8proc does not.
constexpr Range kNewer[] = {
    {0x1C89, 0x1C8A, CharClass::kLetter},   {0xA7CB, 0xA7CD, CharClass::kLetter},
    {0xA7DA, 0xA7DC, CharClass::kLetter},   {0x105C0, 0x105F3, CharClass::kLetter},
    {0x10D40, 0x10D49, CharClass::kNumber}, {0x10D4A, 0x10D65, CharClass::kLetter},
    {0x10D6F, 0x10D85, CharClass::kLetter}, {0x10EC2, 0x10EC4, CharClass::kLetter},
    {0x11380, 0x11389, CharClass::kLetter}, {0x1138B, 0x1138B, CharClass::kLetter},
    {0x1138E, 0x1138E, CharClass::kLetter}, {0x11390, 0x113B5, CharClass::kLetter},
    {0x113B7, 0x113B7, CharClass::kLetter}, {0x113D1, 0x113D1, CharClass::kLetter},
    {0x113D3, 0x113D3, CharClass::kLetter}, {0x116D0, 0x116E3, CharClass::kNumber},
    {0x11BC0, 0x11BE0, CharClass::kLetter}, {0x11BF0, 0x11BF9, CharClass::kNumber},
    {0x13460, 0x143FA, CharClass::kLetter}, {0x16100, 0x1611D, CharClass::kLetter},
    {0x16130, 0x16139, CharClass::kNumber}, {0x16D40, 0x16D6C, CharClass::kLetter},
    {0x16D70, 0x16D79, CharClass::kNumber}, {0x18CFF, 0x18CFF, CharClass::kLetter},
    {0x1CCF0, 0x1CCF9, CharClass::kNumber}, {0x1E5D0, 0x1E5ED, CharClass::kLetter},
    {0x1E5F0, 0x1E5F0, CharClass::kLetter}, {0x1E5F1, 0x1E5FA, CharClass::kNumber},
    {0x2EBF0, 0x2EE5D, CharClass::kLetter},
};

CharClass ClassOfUnassigned(char32_t code_point) {
  const auto* range =
      std::lower_bound(std::begin(kNewer), std::end(kNewer), code_point,
                       [](const Range& candidate, char32_t c) { return candidate.last < c; });
  const bool inside = range != std::end(kNewer) && range->first <= code_point;
  return inside ? range->cls : CharClass::kOther;
}

}  // namespace

CharClass ClassOfWide(char32_t code_point) {
  // White_Space beyond the separators Zs, Zl, Zp: only NEL above ASCII.
  if (code_point == 0x85) return CharClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharClass::kPunctuation;
    case UTF8PROC_CATEGORY_CN:
      return ClassOfUnassigned(code_point);
    default:
      return CharClass::kOther;
  }
}

}  // namespace tandem::text

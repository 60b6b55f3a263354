#include "text/char_class.h"

#include "text/unicode_table.h"

namespace tandem::text {

CharClass ClassOfWide(char32_t code_point) {
  const CategoryMask mask = MaskOf(CategoryOf(code_point));
  if ((mask & kLetters) != 0) return CharClass::kLetter;
  if ((mask & kNumbers) != 0) return CharClass::kNumber;
  // White_Space beyond the separators: only NEL above ASCII.
  if ((mask & kSeparators) != 0 || code_point == 0x85) return CharClass::kSpace;
  return (mask & kPunctuation) != 0 ? CharClass::kPunctuation : CharClass::kOther;
}

}  // namespace tandem::text

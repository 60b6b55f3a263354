// Character classes of patterns by name.
#ifndef TANDEM_TEXT_REGEX_CLASS_H_
#define TANDEM_TEXT_REGEX_CLASS_H_

#include <optional>
#include <string_view>

#include "text/char_set.h"

namespace tandem::text {

// \p{name}: general categories, scripts that tokenizers ask for, POSIX names. Nothing: unknown.
std::optional<CharRanges> ClassByProperty(std::string_view name);
// [[:name:]]
std::optional<CharRanges> ClassByPosixName(std::string_view name);
// \s \d \w \h and, in upper case, what they leave out. Nothing: no class.
std::optional<CharRanges> ClassByEscape(char letter);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_REGEX_CLASS_H_

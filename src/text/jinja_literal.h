// Literals in template expressions.
#ifndef TANDEM_TEXT_JINJA_LITERAL_H_
#define TANDEM_TEXT_JINJA_LITERAL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/value.h"

namespace tandem::text::jinja {

// The value of a string literal's inside: Python's escapes; unknown ones stay as written.
Result<std::string> Unescape(std::string_view text);

struct NumberShape {
  size_t bytes;
  bool is_float;
};
// The number at the front of `text`, which begins with a digit. Without may_be_float a point ends
// it.
NumberShape ScanNumber(std::string_view text, bool may_be_float);

// Value of a literal that ScanNumber delimited; nothing where it does not fit.
std::optional<Value> ParseInteger(std::string_view text);
std::optional<Value> ParseFloat(std::string_view text);

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_LITERAL_H_

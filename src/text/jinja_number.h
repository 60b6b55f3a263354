// Numbers in text, as Python's int() and float() read them.
#ifndef TANDEM_TEXT_JINJA_NUMBER_H_
#define TANDEM_TEXT_JINJA_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::text::jinja {

// White space around, a sign, single underscores between digits. Nothing where it is no such number
// or does not fit.
std::optional<int64_t> ParsePythonInt(std::string_view text, int base);
std::optional<double> ParsePythonFloat(std::string_view text);

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_NUMBER_H_

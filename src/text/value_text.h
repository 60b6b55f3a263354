// How Python writes values: str() and repr().
#ifndef TANDEM_TEXT_VALUE_TEXT_H_
#define TANDEM_TEXT_VALUE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "text/value.h"

namespace tandem::text {

// Both append; false once `out` is longer than max_bytes (what is there then is cut).
bool AppendStr(const Value& value, size_t max_bytes, std::string& out);
bool AppendRepr(const Value& value, size_t max_bytes, std::string& out);

// The shortest form that reads back, as Python's repr: 1.0, 0.1, 1e-05, 1e+16, inf, nan.
std::string FormatDouble(double value);
// A string literal in the quotes that Python picks.
void AppendQuoted(std::string_view text, std::string& out);

// The type's name in Python, for error messages: 'str', 'list', 'NoneType', ...
std::string_view TypeName(const Value& value);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_VALUE_TEXT_H_

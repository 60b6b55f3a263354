// Python's two ways to format, and HTML escaping.
#ifndef TANDEM_TEXT_JINJA_FORMAT_H_
#define TANDEM_TEXT_JINJA_FORMAT_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja_object.h"
#include "text/value.h"

namespace tandem::text::jinja {

// & < > ' " as character references.
std::string Escape(std::string_view text);

// format % arguments, where arguments is a tuple, a dict (for %(name)s) or one value.
Result<Value> PercentFormat(Interp& interp, const Value& format, const Value& arguments);

// format.format(...)
Result<Value> BraceFormat(Interp& interp, const Value& format, const CallArgs& args);

// Pads valid UTF-8 to `width` code points. align: '<', '>' or '^'.
std::string Pad(std::string text, size_t width, char align, std::string_view fill = " ");

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_FORMAT_H_

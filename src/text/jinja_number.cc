#include "text/jinja_number.h"

#include <charconv>
#include <limits>
#include <string>

#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

bool IsAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Without its underscores; nothing where one does not stand between two digits.
std::optional<std::string> DropUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && IsAlnum(text[i - 1]) && IsAlnum(text[i + 1]);
    if (!between) return std::nullopt;
  }
  return out;
}

bool TakeSign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

}  // namespace

std::optional<int64_t> ParsePythonInt(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = Strip(text);
  const bool negative = TakeSign(text);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == 0 || base == marked)) {
      base = marked;
      text.remove_prefix(2);
    }
  }
  const auto digits = DropUnderscores(text);
  if (!digits || digits->empty() || !IsAlnum(digits->front())) return std::nullopt;
  uint64_t size = 0;
  const char* end = digits->data() + digits->size();
  const auto read = std::from_chars(digits->data(), end, size, base == 0 ? 10 : base);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
}

std::optional<double> ParsePythonFloat(std::string_view text) {
  text = Strip(text);
  const bool negative = TakeSign(text);
  const auto digits = DropUnderscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  const std::string lower = ToLower(*digits);
  double size = 0;
  if (lower == "inf" || lower == "infinity") {
    size = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    size = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (lower[0] != '.' && (lower[0] < '0' || lower[0] > '9')) return std::nullopt;
    const char* end = lower.data() + lower.size();
    const auto read = std::from_chars(lower.data(), end, size);
    if (read.ec == std::errc::result_out_of_range) {
      size = std::numeric_limits<double>::infinity();
    } else if (read.ec != std::errc() || read.ptr != end) {
      return std::nullopt;
    }
  }
  return negative ? -size : size;
}

}  // namespace tandem::text::jinja

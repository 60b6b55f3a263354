#include "text/jinja_literal.h"

#include <charconv>

#include "text/utf8.h"

namespace tandem::text::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string WithoutUnderscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

// Digits with single underscores between them, from `at` on.
size_t DigitsEnd(std::string_view text, size_t at) {
  while (at < text.size()) {
    if (IsDigit(text[at])) {
      ++at;
    } else if (text[at] == '_' && at + 1 < text.size() && IsDigit(text[at + 1])) {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

// The number written with `digits` digits of `base` at the front of `text`.
std::optional<char32_t> ReadCode(std::string_view text, size_t digits, int base) {
  if (text.size() < digits) return std::nullopt;
  uint32_t code = 0;
  const auto end = std::from_chars(text.data(), text.data() + digits, code, base);
  if (end.ec != std::errc() || end.ptr != text.data() + digits) return std::nullopt;
  return code;
}

size_t OctalDigits(std::string_view text) {
  size_t n = 0;
  while (n < 3 && n < text.size() && text[n] >= '0' && text[n] <= '7') ++n;
  return n;
}

}  // namespace

Result<std::string> Unescape(std::string_view text) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  char32_t high = 0;  // the first half of a surrogate pair
  for (size_t at = 0; at < text.size();) {
    const size_t slash = text.find('\\', at);
    out += text.substr(at, slash - at);
    if (slash == std::string_view::npos) break;
    const char kind = text[slash + 1];  // the lexer saw that a character follows
    at = slash + 2;
    if (kind == '\n') continue;
    if (const size_t i = kFrom.find(kind); i != std::string_view::npos) {
      out += kTo[i];
      continue;
    }
    const size_t hex = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const size_t octal = hex == 0 ? OctalDigits(text.substr(slash + 1)) : 0;
    if (hex == 0 && octal == 0) {
      out += '\\';
      out += kind;
      continue;
    }
    const size_t digits = hex != 0 ? hex : octal;
    const size_t from = hex != 0 ? at : slash + 1;
    const auto code = ReadCode(text.substr(from), digits, hex != 0 ? 16 : 8);
    if (!code || *code > 0x10FFFF) {
      return Err(Code::kInvalidArgument, "broken escape '\\{}' in a string", kind);
    }
    at = from + digits;
    if (*code >= 0xD800 && *code <= 0xDBFF) {
      high = *code;
    } else if (*code >= 0xDC00 && *code <= 0xDFFF && high != 0) {
      AppendUtf8(0x10000 + ((high - 0xD800) << 10) + (*code - 0xDC00), out);
      high = 0;
    } else {
      AppendUtf8(*code, out);
    }
  }
  return out;
}

NumberShape ScanNumber(std::string_view text, bool may_be_float) {
  const char base = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  if (base == 'x' || base == 'o' || base == 'b') {
    size_t end = 2;
    const auto fits = [base](char c) {
      if (base == 'x') return IsDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') || c == '_';
      return (c >= '0' && c <= (base == 'o' ? '7' : '1')) || c == '_';
    };
    while (end < text.size() && fits(text[end])) ++end;
    if (end > 2) return {end, false};
  }
  size_t end = DigitsEnd(text, 0);
  bool is_float = false;
  if (!may_be_float) return {end, false};
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) {
    end = DigitsEnd(text, end + 1);
    is_float = true;
  }
  if (end < text.size() && (text[end] | 0x20) == 'e') {
    size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < text.size() && IsDigit(text[exponent])) {
      end = DigitsEnd(text, exponent);
      is_float = true;
    }
  }
  return {end, is_float};
}

std::optional<Value> ParseInteger(std::string_view text) {
  std::string digits = WithoutUnderscores(text);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && !IsDigit(digits[1])) {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : 2;
    digits.erase(0, 2);
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value, base);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return Value::Int(value);
}

std::optional<Value> ParseFloat(std::string_view text) {
  const std::string digits = WithoutUnderscores(text);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return Value::Float(value);
}

}  // namespace tandem::text::jinja

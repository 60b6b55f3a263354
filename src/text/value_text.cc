#include "text/value_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_object.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void AppendEscaped(char32_t c, std::string& out) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

bool AppendSequence(const Value& value, size_t max_bytes, std::string& out) {
  const bool tuple = value.kind() == Value::Kind::kTuple;
  out += tuple ? '(' : '[';
  bool first = true;
  for (const Value& item : value.Items()) {
    if (!first) out += ", ";
    first = false;
    if (!AppendRepr(item, max_bytes, out)) return false;
  }
  if (tuple && value.Items().size() == 1) out += ',';
  out += tuple ? ')' : ']';
  return out.size() <= max_bytes;
}

bool AppendDict(const Dict& dict, size_t max_bytes, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, item] : dict.entries()) {
    if (!first) out += ", ";
    first = false;
    if (!AppendRepr(key, max_bytes, out)) return false;
    out += ": ";
    if (!AppendRepr(item, max_bytes, out)) return false;
  }
  out += '}';
  return out.size() <= max_bytes;
}

}  // namespace

void AppendQuoted(std::string_view text, std::string& out) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (IsPrintable(c.value)) {
      out += text.substr(0, c.bytes);
    } else {
      AppendEscaped(c.value, out);
    }
    text.remove_prefix(c.bytes);
  }
  out += quote;
}

std::string FormatDouble(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t mark = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(mark + 1)).c_str());
  const bool negative = text.front() == '-';
  std::string digits(text.substr(negative ? 1 : 0, mark - (negative ? 1 : 0)));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  std::string out = negative ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    const auto whole = static_cast<size_t>(exponent + 1);
    out += digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return out;
}

bool AppendStr(const Value& value, size_t max_bytes, std::string& out) {
  if (value.IsString()) {
    out += value.AsString();
    return out.size() <= max_bytes;
  }
  return AppendRepr(value, max_bytes, out);
}

bool AppendRepr(const Value& value, size_t max_bytes, std::string& out) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      break;
    case Value::Kind::kNone:
      out += "None";
      break;
    case Value::Kind::kBool:
      out += value.AsBool() ? "True" : "False";
      break;
    case Value::Kind::kInt:
      out += fmt::to_string(value.AsInt());
      break;
    case Value::Kind::kFloat:
      out += FormatDouble(value.AsDouble());
      break;
    case Value::Kind::kString:
      if (value.IsSafe()) out += "Markup(";
      AppendQuoted(value.AsString(), out);
      if (value.IsSafe()) out += ')';
      break;
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return AppendSequence(value, max_bytes, out);
    case Value::Kind::kDict:
      return AppendDict(value.AsDict(), max_bytes, out);
    case Value::Kind::kObject:
      out += fmt::format("<{}>", value.AsObject().TypeName());
      break;
  }
  return out.size() <= max_bytes;
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return "Undefined";
    case Value::Kind::kNone:
      return "NoneType";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
      return "int";
    case Value::Kind::kFloat:
      return "float";
    case Value::Kind::kString:
      return "str";
    case Value::Kind::kList:
      return "list";
    case Value::Kind::kTuple:
      return "tuple";
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kObject:
      return value.AsObject().TypeName();
  }
  return "";
}

}  // namespace tandem::text

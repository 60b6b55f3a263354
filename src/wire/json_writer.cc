#include "wire/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "wire/json.h"
#include "wire/utf8.h"

namespace tandem::wire {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes that can be copied as they are.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

void AppendEscape(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      out += "\\u00";
      out.push_back(kHex[static_cast<uint8_t>(c) >> 4]);
      out.push_back(kHex[c & 15]);
  }
}

template <class T>
void AppendChars(std::string& out, T value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), end.ptr);
}

// A real number stays one when it is read back: 2 is written 2.0.
template <class T>
void AppendReal(std::string& out, T value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const size_t start = out.size();
  AppendChars(out, value);
  if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out.push_back('"');
  size_t i = 0;
  while (i < text.size()) {
    size_t run = i;
    while (run < text.size() && kPlain[static_cast<uint8_t>(text[run])]) ++run;
    out.append(text, i, run - i);
    i = run;
    if (i == text.size()) break;
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      AppendEscape(out, text[i++]);
      continue;
    }
    const size_t length = Utf8Length(text.substr(i));
    out += length == 0 ? kReplacement : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  out.push_back('"');
}

void AppendJsonNumber(std::string& out, double value) { AppendReal(out, value); }
void AppendJsonNumber(std::string& out, float value) { AppendReal(out, value); }
void AppendJsonNumber(std::string& out, int64_t value) { AppendChars(out, value); }
void AppendJsonNumber(std::string& out, uint64_t value) { AppendChars(out, value); }

void AppendJson(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull:
      out += "null";
      return;
    case Json::Type::kBool:
      out += value.AsBool() ? "true" : "false";
      return;
    case Json::Type::kInt:
      AppendJsonNumber(out, value.AsInt());
      return;
    case Json::Type::kUint:
      AppendJsonNumber(out, value.AsUint());
      return;
    case Json::Type::kDouble:
      AppendJsonNumber(out, value.AsDouble());
      return;
    case Json::Type::kString:
      AppendJsonString(out, value.AsString());
      return;
    case Json::Type::kArray: {
      char before = '[';
      for (const Json& element : value.AsArray()) {
        out.push_back(before);
        AppendJson(out, element);
        before = ',';
      }
      out += before == '[' ? "[]" : "]";
      return;
    }
    case Json::Type::kObject: {
      char before = '{';
      for (const Json::Member& member : value.AsObject()) {
        out.push_back(before);
        AppendJsonString(out, member.key);
        out.push_back(':');
        AppendJson(out, member.value);
        before = ',';
      }
      out += before == '{' ? "{}" : "}";
      return;
    }
  }
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  out_.push_back('"');
  out_ += key;
  out_ += "\":";
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view v) {
  Separate();
  AppendJsonString(out_, v);
  return *this;
}

JsonWriter& JsonWriter::Double(double v) {
  Separate();
  AppendJsonNumber(out_, v);
  return *this;
}

JsonWriter& JsonWriter::Float(float v) {
  Separate();
  AppendJsonNumber(out_, v);
  return *this;
}

JsonWriter& JsonWriter::Value(const Json& v) {
  Separate();
  AppendJson(out_, v);
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::Open(char c) {
  Separate();
  out_.push_back(c);
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Shut(char c) {
  out_.push_back(c);
  need_comma_ = true;
  return *this;
}

}  // namespace tandem::wire

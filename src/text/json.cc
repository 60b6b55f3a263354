#include "text/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/utf8.h"
#include "text/value_text.h"
#include "wire/json.h"

namespace tandem::text {
namespace {

// Writes as Python's json module does.
class Encoder {
 public:
  explicit Encoder(const ToJsonOptions& options) : options_(options) {}

  Status Write(const Value& value, size_t level) {
    if (out_.size() > options_.max_bytes) {
      return Err(Code::kResourceExhausted, "tojson: the text is longer than {} bytes",
                 options_.max_bytes);
    }
    switch (value.kind()) {
      case Value::Kind::kNone:
        out_ += "null";
        return {};
      case Value::Kind::kBool:
        out_ += value.AsBool() ? "true" : "false";
        return {};
      case Value::Kind::kInt:
        out_ += fmt::to_string(value.AsInt());
        return {};
      case Value::Kind::kFloat:
        out_ += FloatText(value.AsDouble());
        return {};
      case Value::Kind::kString:
        WriteString(value.AsString());
        return {};
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return WriteList(value.Items(), level);
      case Value::Kind::kDict:
        return WriteDict(value.AsDict(), level);
      case Value::Kind::kUndefined:
      case Value::Kind::kObject:
        break;
    }
    return Err(Code::kInvalidArgument, "tojson: an object of type {} cannot be written as JSON",
               TypeName(value));
  }

  std::string Take() { return std::move(out_); }

 private:
  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FormatDouble(value);
  }

  void NewLine(size_t level) {
    if (!options_.indent) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *options_.indent;
  }

  void Separate(bool first, size_t level) {
    if (!first) out_ += options_.item_separator;
    NewLine(level);
  }

  Status WriteList(const std::vector<Value>& items, size_t level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      Separate(i == 0, level + 1);
      TRY(Write(items[i], level + 1));
    }
    if (!items.empty()) NewLine(level);
    out_ += ']';
    return {};
  }

  static Result<std::string> KeyText(const Value& key) {
    switch (key.kind()) {
      case Value::Kind::kString:
        return key.AsString();
      case Value::Kind::kNone:
        return std::string("null");
      case Value::Kind::kBool:
        return std::string(key.AsBool() ? "true" : "false");
      case Value::Kind::kInt:
        return fmt::to_string(key.AsInt());
      case Value::Kind::kFloat:
        return FloatText(key.AsDouble());
      default:
        return Err(Code::kInvalidArgument, "tojson: a key of type {} cannot be written as JSON",
                   TypeName(key));
    }
  }

  Status WriteDict(const Dict& dict, size_t level) {
    std::vector<std::pair<std::string, const Value*>> members;
    members.reserve(dict.size());
    for (const auto& [key, item] : dict.entries()) {
      TRY_ASSIGN(std::string text, KeyText(key));
      members.emplace_back(std::move(text), &item);
    }
    if (options_.sort_keys) std::sort(members.begin(), members.end());
    out_ += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      Separate(i == 0, level + 1);
      WriteString(members[i].first);
      out_ += options_.key_separator;
      TRY(Write(*members[i].second, level + 1));
    }
    if (!members.empty()) NewLine(level);
    out_ += '}';
    return {};
  }

  void WriteString(std::string_view text) {
    out_ += '"';
    while (!text.empty()) {
      const auto byte = static_cast<uint8_t>(text.front());
      if (byte >= 0x80 && options_.ensure_ascii) {
        const CodePoint c = DecodeUtf8(text);
        WriteUnits(c.value);
        text.remove_prefix(c.bytes);
        continue;
      }
      WriteByte(text.front());
      text.remove_prefix(1);
    }
    out_ += '"';
  }

  void WriteByte(char c) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    static constexpr std::string_view kTo = "\"\\nrtbf";
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      out_ += '\\';
      out_ += kTo[i];
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out_ += c;
    }
  }

  void WriteUnits(char32_t c) {
    const auto unit = [this](uint32_t u) { out_ += fmt::format("\\u{:04x}", u); };
    if (c < 0x10000) return unit(c);
    unit(0xD800 + ((c - 0x10000) >> 10));
    unit(0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  const ToJsonOptions& options_;
  std::string out_;
};

}  // namespace

Value ValueFromJson(const wire::Json& json) {
  switch (json.type()) {
    case wire::Json::Type::kNull:
      return Value::None();
    case wire::Json::Type::kBool:
      return Value::Bool(json.AsBool());
    case wire::Json::Type::kInt:
      return Value::Int(json.AsInt());
    case wire::Json::Type::kUint:
    case wire::Json::Type::kDouble:
      return Value::Float(json.AsDouble());
    case wire::Json::Type::kString:
      return Value::String(json.AsString());
    case wire::Json::Type::kArray: {
      std::vector<Value> items;
      items.reserve(json.AsArray().size());
      for (const wire::Json& item : json.AsArray()) items.push_back(ValueFromJson(item));
      return Value::List(std::move(items));
    }
    case wire::Json::Type::kObject: {
      Dict dict;
      for (const auto& [key, item] : json.AsObject()) dict.Set(key, ValueFromJson(item));
      return Value::FromDict(std::move(dict));
    }
  }
  return {};
}

Result<Value> ValueFromJson(std::string_view json) {
  TRY_ASSIGN(const wire::Json parsed, wire::ParseJson(json));
  return ValueFromJson(parsed);
}

Result<std::string> ToJson(const Value& value, const ToJsonOptions& options) {
  Encoder encoder(options);
  TRY(encoder.Write(value, 0));
  return encoder.Take();
}

}  // namespace tandem::text

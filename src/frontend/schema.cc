#include "frontend/schema.h"

#include <algorithm>
#include <cmath>

namespace tandem::frontend {

using wire::Json;

namespace {

constexpr int64_t kMaxTokenId = std::numeric_limits<wire::TokenId>::max();

// A short form of the value for an error message.
std::string Shown(const Json& value) {
  std::string text = wire::ToJsonText(value);
  constexpr size_t kShown = 60;
  if (text.size() <= kShown) return text;
  size_t cut = kShown;
  while (cut > 0 && (static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

std::string Range(double min, double max, bool min_excluded) {
  const std::string_view low = min_excluded ? "greater than" : "at least";
  if (min == -kNoLimit && max == kNoLimit) return "a finite number";
  if (max == kNoLimit) return fmt::format("{} {}", low, min);
  if (min == -kNoLimit) return fmt::format("at most {}", max);
  return fmt::format("{} {} and at most {}", low, min, max);
}

}  // namespace

std::unexpected<Error> WrongType(std::string_view name, std::string_view wanted,
                                 const Json& value) {
  return FieldErr(name, "{} must be {}, not {} ({})", name, wanted, value.TypeName(), Shown(value));
}

Result<bool> ReadBool(const Json& value, std::string_view name) {
  if (!value.IsBool()) return WrongType(name, "true or false", value);
  return value.AsBool();
}

Result<int64_t> ReadInt(const Json& value, std::string_view name, int64_t min, int64_t max) {
  if (value.type() == Json::Type::kUint)
    return FieldErr(name, "{} is {}, out of range: send an integer from {} to {}", name,
                    value.AsUint(), min, max);
  if (!value.IsInt()) return WrongType(name, "an integer", value);
  const int64_t v = value.AsInt();
  if (v < min || v > max) {
    if (max == std::numeric_limits<int64_t>::max())
      return FieldErr(name, "{} must be at least {}, not {}", name, min, v);
    return FieldErr(name, "{} must be between {} and {}, not {}", name, min, max, v);
  }
  return v;
}

Result<double> ReadNumber(const Json& value, std::string_view name, double min, double max,
                          bool min_excluded) {
  if (!value.IsNumber()) return WrongType(name, "a number", value);
  const double v = value.AsDouble();
  const bool low = min_excluded ? v > min : v >= min;
  if (!std::isfinite(v) || !low || v > max)
    return FieldErr(name, "{} must be {}, not {}", name, Range(min, max, min_excluded), v);
  // Workers compute with 32 bits, where it would become 0 or infinite.
  const auto narrow = static_cast<float>(v);
  if (!std::isfinite(narrow) || (min_excluded && narrow <= min))
    return FieldErr(
        name, "{} is {}, which a 32-bit number cannot hold: send one from 1e-38 to 3e38", name, v);
  return v;
}

Result<std::string> ReadString(const Json& value, std::string_view name, size_t max_bytes) {
  if (!value.IsString()) return WrongType(name, "a string", value);
  if (value.AsString().size() > max_bytes)
    return FieldErr(name, "{} has {} bytes; at most {} are accepted", name, value.AsString().size(),
                    max_bytes);
  return value.AsString();
}

Result<std::vector<wire::TokenId>> ReadTokenIds(const Json& value, std::string_view name) {
  if (!value.IsArray()) return WrongType(name, "a list of token ids", value);
  std::vector<wire::TokenId> ids;
  ids.reserve(value.AsArray().size());
  for (const Json& element : value.AsArray()) {
    // The path is built only for an element that is wrong.
    if (!element.IsInt() || element.AsInt() < 0 || element.AsInt() > kMaxTokenId) {
      const std::string path = fmt::format("{}[{}]", name, ids.size());
      TRY(ReadInt(element, path, 0, kMaxTokenId));
    }
    ids.push_back(static_cast<wire::TokenId>(element.AsInt()));
  }
  return ids;
}

namespace internal {

Status CheckUnsupported(const Unsupported& field, const Json& value, std::string_view name) {
  const std::string text = wire::ToJsonText(value);
  if (std::find(field.neutral.begin(), field.neutral.end(), text) != field.neutral.end()) return {};
  return std::unexpected(Error{Code::kUnsupported,
                               fmt::format("{} is not supported by this version; {}", name,
                                           field.remedy.empty() ? "leave it out" : field.remedy),
                               std::string(name)});
}

std::unexpected<Error> UnknownField(std::string_view name) {
  std::string shown;
  const Json json{name.substr(0, 100)};
  return FieldErr(name.substr(0, 100), "unknown field {}; remove it or correct its name",
                  wire::ToJsonText(json));
}

std::unexpected<Error> InnerField(std::string_view name) {
  return FieldErr(name, "{} is set between the parts of the server and cannot be sent by a client",
                  name);
}

}  // namespace internal

Result<Json> ParseBody(std::string_view body) {
  TRY_ASSIGN(Json json, wire::ParseJson(body));
  if (!json.IsObject())
    return FieldErr("body", "the body must be a JSON object, not {}", json.TypeName());
  return json;
}

}  // namespace tandem::frontend

#include "wire/json.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_set>

#include "wire/json_writer.h"

namespace tandem::wire {
namespace {

// A parser grows with the largest text it has seen; beyond this it is not kept.
constexpr size_t kKeptParserBytes = size_t{1} << 20;
// Few members are compared with each other; many go through a set.
constexpr size_t kLinearKeys = 16;

std::string Shown(std::string_view key) {
  std::string out;
  AppendJsonString(out, key.substr(0, 100));
  return out;
}

// Copies simdjson's tree, which dies with its parser, into ours, and applies the limits that
// simdjson does not know.
class Copier {
 public:
  explicit Copier(const JsonLimits& limits) : values_left_(limits.max_values) {}

  Result<Json> Copy(simdjson::dom::element element) {
    using simdjson::dom::element_type;
    if (values_left_ == 0)
      return Err(Code::kTooLarge, "the JSON text has too many values; send fewer of them");
    --values_left_;
    switch (element.type()) {
      case element_type::NULL_VALUE:
        return Json();
      case element_type::BOOL:
        return Json(bool{element.get_bool().value_unsafe()});
      case element_type::INT64:
        return Json(int64_t{element.get_int64().value_unsafe()});
      case element_type::UINT64:
        return Json(uint64_t{element.get_uint64().value_unsafe()});
      case element_type::DOUBLE:
        return Json(double{element.get_double().value_unsafe()});
      case element_type::STRING:
        return Json(std::string_view(element.get_string().value_unsafe()));
      case element_type::ARRAY:
        return CopyArray(element.get_array().value_unsafe());
      case element_type::OBJECT:
        return CopyObject(element.get_object().value_unsafe());
    }
    return Json();
  }

 private:
  Result<Json> CopyArray(simdjson::dom::array array) {
    Json::Array out;
    out.reserve(std::min(array.size(), values_left_));
    for (simdjson::dom::element element : array) {
      TRY_ASSIGN(Json value, Copy(element));
      out.push_back(std::move(value));
    }
    return Json(std::move(out));
  }

  Result<Json> CopyObject(simdjson::dom::object object) {
    Json::Object out;
    out.reserve(std::min(object.size(), values_left_));
    for (const simdjson::dom::key_value_pair field : object) {
      TRY_ASSIGN(Json value, Copy(field.value));
      out.push_back({std::string(field.key), std::move(value)});
    }
    TRY(CheckKeys(out));
    return Json(std::move(out));
  }

  static Status CheckKeys(const Json::Object& members) {
    const auto twice = [](std::string_view key) {
      return FieldErr(key, "the JSON object has the key {} twice; send it once", Shown(key));
    };
    if (members.size() <= kLinearKeys) {
      for (size_t i = 0; i < members.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (members[i].key == members[j].key) return twice(members[i].key);
      return {};
    }
    std::unordered_set<std::string_view> seen;
    for (const Json::Member& member : members)
      if (!seen.insert(member.key).second) return twice(member.key);
    return {};
  }

  size_t values_left_;
};

std::unexpected<Error> Refusal(std::string_view text, simdjson::error_code code, int max_depth) {
  const auto fault = FindJsonFault(text, max_depth);
  if (fault && fault->large_integer_at) {
    const std::string& path = *fault->large_integer_at;
    return FieldErr(path, "{} is out of range: an integer of more than 64 bits, at byte {}",
                    path.empty() ? "the value" : path, fault->offset);
  }
  if (fault)
    return Err(Code::kInvalidArgument, "invalid JSON: {} at byte {}", fault->what, fault->offset);
  if (code == simdjson::MEMALLOC)
    return Err(Code::kResourceExhausted, "not enough memory to read {} bytes of JSON", text.size());
  return Err(Code::kInvalidArgument, "invalid JSON: {}", simdjson::error_message(code));
}

}  // namespace

Json::Json() = default;
Json::Json(bool v) : value_(v) {}
Json::Json(Integer v) : value_(v.value) {}
Json::Json(double v) : value_(v) {}
Json::Json(std::string v) : value_(std::move(v)) {}
Json::Json(std::string_view v) : value_(std::string(v)) {}
Json::Json(const char* v) : value_(std::string(v)) {}
Json::Json(uint64_t v) {
  if (v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    value_ = static_cast<int64_t>(v);
  else
    value_ = v;
}
Json::Json(Array v) : value_(std::move(v)) {}
Json::Json(Object v) : value_(std::move(v)) {}

double Json::AsDouble() const {
  if (const auto* integer = std::get_if<int64_t>(&value_)) return static_cast<double>(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&value_)) return static_cast<double>(*integer);
  return std::get<double>(value_);
}

const Json* Json::Find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const Member& member : *members)
    if (member.key == key) return &member.value;
  return nullptr;
}

std::string_view Json::TypeName() const {
  switch (type()) {
    case Type::kNull:
      return "null";
    case Type::kBool:
      return "boolean";
    case Type::kInt:
    case Type::kUint:
      return "integer";
    case Type::kDouble:
      return "number";
    case Type::kString:
      return "string";
    case Type::kArray:
      return "array";
    case Type::kObject:
      return "object";
  }
  return "?";
}

bool operator==(const Json& a, const Json& b) { return a.value_ == b.value_; }

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Err(Code::kTooLarge, "the JSON text has {} bytes, more than the limit of {}",
               text.size(), limits.max_bytes);
  static thread_local std::unique_ptr<simdjson::dom::parser> kept;
  std::unique_ptr<simdjson::dom::parser> parser = std::move(kept);
  if (!parser) parser = std::make_unique<simdjson::dom::parser>();
  // simdjson fails at the limit itself, we allow it.
  const size_t capacity = std::max(text.size(), parser->capacity());
  if (parser->allocate(capacity, static_cast<size_t>(limits.max_depth) + 1) != simdjson::SUCCESS)
    return Refusal(text, simdjson::MEMALLOC, limits.max_depth);
  simdjson::dom::element root;
  const simdjson::error_code code = parser->parse(text.data(), text.size()).get(root);
  if (code != simdjson::SUCCESS) return Refusal(text, code, limits.max_depth);
  Result<Json> json = Copier(limits).Copy(root);
  if (text.size() <= kKeptParserBytes) kept = std::move(parser);
  return json;
}

std::string ToJsonText(const Json& value) {
  std::string out;
  AppendJson(out, value);
  return out;
}

}  // namespace tandem::wire

// JSON that was read: an immutable-by-convention value tree. Numbers keep what was written: an
// integer that fits 64 bits stays an integer, everything else is a double. Objects keep their
// order and have no duplicate keys. Strings are valid UTF-8. Thread-compatible.
#ifndef TANDEM_WIRE_JSON_H_
#define TANDEM_WIRE_JSON_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tandem::wire {

class Json {
 public:
  enum class Type { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json();  // null
  explicit Json(bool v);
  template <std::signed_integral T>
  explicit Json(T v) : Json(Integer{v}) {}
  explicit Json(uint64_t v);  // kept as an int64 where it fits
  explicit Json(double v);
  explicit Json(std::string v);
  explicit Json(std::string_view v);
  explicit Json(const char* v);
  explicit Json(Array v);
  explicit Json(Object v);
  // Defined where Member is complete.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  Type type() const { return static_cast<Type>(value_.index()); }
  bool IsNull() const { return type() == Type::kNull; }
  bool IsBool() const { return type() == Type::kBool; }
  // An integer that fits int64. 1.0 is not an integer.
  bool IsInt() const { return type() == Type::kInt; }
  bool IsNumber() const {
    return type() == Type::kInt || type() == Type::kUint || type() == Type::kDouble;
  }
  bool IsString() const { return type() == Type::kString; }
  bool IsArray() const { return type() == Type::kArray; }
  bool IsObject() const { return type() == Type::kObject; }

  // The caller has checked the type.
  bool AsBool() const { return std::get<bool>(value_); }
  int64_t AsInt() const { return std::get<int64_t>(value_); }
  uint64_t AsUint() const { return std::get<uint64_t>(value_); }  // only values above INT64_MAX
  double AsDouble() const;                                        // of any number
  const std::string& AsString() const { return std::get<std::string>(value_); }
  const Array& AsArray() const { return std::get<Array>(value_); }
  const Object& AsObject() const { return std::get<Object>(value_); }

  // The member's value; null if this is no object or has no such member.
  const Json* Find(std::string_view key) const;

  // "null", "boolean", "integer", "number", "string", "array", "object": for error messages.
  std::string_view TypeName() const;

  friend bool operator==(const Json& a, const Json& b);

 private:
  struct Integer {
    int64_t value;
  };
  explicit Json(Integer v);

  // In the order of Type.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string key;
  Json value;
  friend bool operator==(const Member&, const Member&) = default;
};

inline Json::Json(const Json&) = default;
inline Json::Json(Json&&) noexcept = default;
inline Json& Json::operator=(const Json&) = default;
inline Json& Json::operator=(Json&&) noexcept = default;
inline Json::~Json() = default;

struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;
  int max_depth = 64;
  size_t max_values = size_t{2} << 20;  // about 48 bytes of memory each
};

// Reads one JSON text (RFC 8259, nothing after it but white space). Errors are kInvalidArgument
// and say what is wrong and at which byte, counted from 0; a text beyond max_bytes is kTooLarge.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Compact text of a value: no spaces, members in order, UTF-8 unescaped.
std::string ToJsonText(const Json& value);

// Where `text` first stops being JSON, and why; empty if it is well formed. Slower than ParseJson;
// used to explain its refusals.
struct JsonFault {
  size_t offset = 0;
  std::string_view what;
  // Set if the text is JSON but an integer in it does not fit 64 bits: where that stands, such as
  // "a.b[3]"; names as they are written.
  std::optional<std::string> large_integer_at = std::nullopt;
};
std::optional<JsonFault> FindJsonFault(std::string_view text, int max_depth);

}  // namespace tandem::wire

#endif  // TANDEM_WIRE_JSON_H_

// Typed access to the metadata of a GGUF file.
#include <cstring>
#include <limits>

#include "model/gguf.h"
#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

template <class T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// An integer of the file: 64 bits and whether they are to be read as signed.
struct Integer {
  uint64_t bits = 0;
  bool negative = false;
  size_t size = 0;  // bytes it took
};

template <class T>
Integer FromSigned(const std::byte* bytes) {
  const int64_t value = Load<T>(bytes);
  return {static_cast<uint64_t>(value), value < 0, sizeof(T)};
}

template <class T>
Integer FromUnsigned(const std::byte* bytes) {
  return {static_cast<uint64_t>(Load<T>(bytes)), false, sizeof(T)};
}

std::optional<Integer> LoadInteger(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return FromUnsigned<uint8_t>(bytes);
    case GgufType::kInt8:
      return FromSigned<int8_t>(bytes);
    case GgufType::kUint16:
      return FromUnsigned<uint16_t>(bytes);
    case GgufType::kInt16:
      return FromSigned<int16_t>(bytes);
    case GgufType::kUint32:
      return FromUnsigned<uint32_t>(bytes);
    case GgufType::kInt32:
      return FromSigned<int32_t>(bytes);
    case GgufType::kUint64:
      return FromUnsigned<uint64_t>(bytes);
    case GgufType::kInt64:
      return FromSigned<int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

bool FitsSigned(const Integer& integer) {
  return integer.negative ||
         integer.bits <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  static constexpr std::string_view kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                "int32",  "float32", "bool",   "string", "array",
                                                "uint64", "int64",   "float64"};
  return kNames[static_cast<uint32_t>(type)];
}

std::unexpected<Error> GgufView::Missing(std::string_view key) const {
  return Err(Code::kCorrupt, "{}: key '{}' is missing", label_, Printable(key));
}

std::unexpected<Error> GgufView::WrongType(std::string_view key, const GgufValue& value,
                                           std::string_view wanted) const {
  if (value.type == GgufType::kArray)
    return Err(Code::kCorrupt, "{}: key '{}' is an array of {} {}, expected {}", label_,
               Printable(key), value.count, GgufTypeName(value.element), wanted);
  return Err(Code::kCorrupt, "{}: key '{}' is of type {}, expected {}", label_, Printable(key),
             GgufTypeName(value.type), wanted);
}

Result<uint64_t> GgufView::Uint(std::string_view key, std::optional<uint64_t> fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Missing(key);
  }
  const std::optional<Integer> integer = LoadInteger(value->type, value->bytes.data());
  if (!integer) return WrongType(key, *value, "an integer");
  if (integer->negative)
    return Err(Code::kCorrupt, "{}: key '{}' is {}, expected no negative number", label_,
               Printable(key), static_cast<int64_t>(integer->bits));
  return integer->bits;
}

Result<int64_t> GgufView::Int(std::string_view key, std::optional<int64_t> fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Missing(key);
  }
  const std::optional<Integer> integer = LoadInteger(value->type, value->bytes.data());
  if (!integer) return WrongType(key, *value, "an integer");
  if (!FitsSigned(*integer))
    return Err(Code::kCorrupt, "{}: key '{}' is {}, which is too large", label_, Printable(key),
               integer->bits);
  return static_cast<int64_t>(integer->bits);
}

Result<double> GgufView::Float(std::string_view key, std::optional<double> fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Missing(key);
  }
  if (value->type == GgufType::kFloat32) return double{Load<float>(value->bytes.data())};
  if (value->type == GgufType::kFloat64) return Load<double>(value->bytes.data());
  const std::optional<Integer> integer = LoadInteger(value->type, value->bytes.data());
  if (!integer) return WrongType(key, *value, "a number");
  return integer->negative ? static_cast<double>(static_cast<int64_t>(integer->bits))
                           : static_cast<double>(integer->bits);
}

Result<bool> GgufView::Bool(std::string_view key, std::optional<bool> fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Missing(key);
  }
  if (value->type != GgufType::kBool) return WrongType(key, *value, "a bool");
  return Load<uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> GgufView::String(std::string_view key,
                                          std::optional<std::string_view> fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Missing(key);
  }
  if (value->type != GgufType::kString) return WrongType(key, *value, "a string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

Result<const GgufValue*> GgufView::Array(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return nullptr;
  if (value->type != GgufType::kArray) return WrongType(key, *value, "an array");
  return value;
}

Result<std::vector<std::string_view>> GgufView::Strings(std::string_view key) const {
  TRY_ASSIGN(const GgufValue* value, Array(key));
  std::vector<std::string_view> strings;
  if (value == nullptr || value->count == 0) return strings;
  if (value->element != GgufType::kString) return WrongType(key, *value, "an array of strings");
  // The parser has walked over these lengths, so they fit.
  strings.reserve(static_cast<size_t>(value->count));
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) {
    const size_t size = static_cast<size_t>(Load<uint64_t>(at));
    at += sizeof(uint64_t);
    strings.emplace_back(reinterpret_cast<const char*>(at), size);
    at += size;
  }
  return strings;
}

Result<std::vector<int64_t>> GgufView::Ints(std::string_view key) const {
  TRY_ASSIGN(const GgufValue* value, Array(key));
  std::vector<int64_t> integers;
  if (value == nullptr || value->count == 0) return integers;
  if (!LoadInteger(value->element, value->bytes.data()))
    return WrongType(key, *value, "an array of integers");
  integers.reserve(static_cast<size_t>(value->count));
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<Integer> integer = LoadInteger(value->element, at);
    if (!FitsSigned(*integer))
      return Err(Code::kCorrupt, "{}: key '{}' has {} at index {}, which is too large", label_,
                 Printable(key), integer->bits, i);
    integers.push_back(static_cast<int64_t>(integer->bits));
    at += integer->size;
  }
  return integers;
}

Result<std::vector<float>> GgufView::Floats(std::string_view key) const {
  TRY_ASSIGN(const GgufValue* value, Array(key));
  std::vector<float> floats;
  if (value == nullptr || value->count == 0) return floats;
  if (value->element != GgufType::kFloat32) return WrongType(key, *value, "an array of float32");
  floats.resize(static_cast<size_t>(value->count));
  std::memcpy(floats.data(), value->bytes.data(), floats.size() * sizeof(float));
  return floats;
}

}  // namespace tandem::model

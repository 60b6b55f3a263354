// Tables that describe the fields of a JSON object, and the reader that applies them. One entry a
// field: its name, its type and range, where the value goes. A field that the table lacks is an
// error, as is one of the wrong type or out of range; null means absent.
#ifndef TANDEM_FRONTEND_SCHEMA_H_
#define TANDEM_FRONTEND_SCHEMA_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/json.h"
#include "wire/messages.h"

namespace tandem::frontend {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Readers of single values. `name` is the path that errors show, for example "messages[0].role".
Result<bool> ReadBool(const wire::Json& value, std::string_view name);
Result<int64_t> ReadInt(const wire::Json& value, std::string_view name, int64_t min, int64_t max);
Result<double> ReadNumber(const wire::Json& value, std::string_view name, double min, double max,
                          bool min_excluded = false);
Result<std::string> ReadString(const wire::Json& value, std::string_view name, size_t max_bytes);
Result<std::vector<wire::TokenId>> ReadTokenIds(const wire::Json& value, std::string_view name);
std::unexpected<Error> WrongType(std::string_view name, std::string_view wanted,
                                 const wire::Json& value);

// Known, but this version does not serve it: refused unless the value says "off". `neutral` lists
// JSON texts that are accepted besides null.
struct Unsupported {
  std::vector<std::string_view> neutral;
  std::string_view remedy;
};
// Information for others (user, metadata, ...): any value is accepted and has no effect.
struct Informational {};
// Only for requests between processes of the cluster.
struct Inner {};

template <class T>
struct Field {
  struct Bool {
    bool T::* to;
  };
  struct Int {
    std::variant<int64_t T::*, std::optional<int64_t> T::*> to;
    int64_t min;
    int64_t max;
  };
  struct Number {
    std::variant<double T::*, std::optional<double> T::*> to;
    double min;
    double max;
    bool min_excluded = false;
  };
  struct String {
    std::string T::* to;
    size_t max_bytes;
    bool may_be_empty = true;
  };
  struct TokenIds {
    std::vector<wire::TokenId> T::* to;
  };
  // Anything else: a function that checks and stores the value.
  struct Custom {
    Status (*read)(const wire::Json& value, std::string_view name, T& to);
  };

  std::string_view name;
  std::variant<Bool, Int, Number, String, TokenIds, Custom, Unsupported, Informational, Inner> kind;
};

namespace internal {
Status CheckUnsupported(const Unsupported& field, const wire::Json& value, std::string_view name);
std::unexpected<Error> UnknownField(std::string_view name);
std::unexpected<Error> InnerField(std::string_view name);

template <class T>
struct FieldReader {
  const wire::Json& value;
  std::string_view name;
  T& to;

  Status operator()(const typename Field<T>::Bool& f) const {
    TRY_ASSIGN(to.*f.to, ReadBool(value, name));
    return {};
  }
  Status operator()(const typename Field<T>::Int& f) const {
    TRY_ASSIGN(const int64_t v, ReadInt(value, name, f.min, f.max));
    std::visit([&](auto member) { to.*member = v; }, f.to);
    return {};
  }
  Status operator()(const typename Field<T>::Number& f) const {
    TRY_ASSIGN(const double v, ReadNumber(value, name, f.min, f.max, f.min_excluded));
    std::visit([&](auto member) { to.*member = v; }, f.to);
    return {};
  }
  Status operator()(const typename Field<T>::String& f) const {
    TRY_ASSIGN(to.*f.to, ReadString(value, name, f.max_bytes));
    if (!f.may_be_empty && (to.*f.to).empty())
      return FieldErr(name, "{} must not be empty; leave it out instead", name);
    return {};
  }
  Status operator()(const typename Field<T>::TokenIds& f) const {
    TRY_ASSIGN(to.*f.to, ReadTokenIds(value, name));
    return {};
  }
  Status operator()(const typename Field<T>::Custom& f) const { return f.read(value, name, to); }
  Status operator()(const Unsupported& f) const { return CheckUnsupported(f, value, name); }
  Status operator()(const Informational&) const { return {}; }
  Status operator()(const Inner&) const { return InnerField(name); }
};
}  // namespace internal

// A table and where its values go.
template <class T>
struct Bound {
  std::span<const Field<T>> table;
  T& to;

  // nullopt: the table does not know the member.
  std::optional<Status> Read(const wire::Json::Member& member) const {
    for (const Field<T>& field : table) {
      if (field.name != member.key) continue;
      if (member.value.IsNull() && !std::holds_alternative<Inner>(field.kind)) return Status();
      return std::visit(internal::FieldReader<T>{member.value, field.name, to}, field.kind);
    }
    return std::nullopt;
  }
};
template <class Table, class T>
Bound(const Table&, T&) -> Bound<T>;

// Reads every member of `object` into the first of the targets whose table knows it.
template <class... T>
Status ReadMembers(const wire::Json::Object& object, const Bound<T>&... targets) {
  for (const wire::Json::Member& member : object) {
    std::optional<Status> status;
    ((status = targets.Read(member), status.has_value()) || ...);
    if (!status) return internal::UnknownField(member.key);
    TRY(*std::move(status));
  }
  return {};
}

// The body as an object.
Result<wire::Json> ParseBody(std::string_view body);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_SCHEMA_H_

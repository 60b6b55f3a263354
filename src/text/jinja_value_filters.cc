// Filters over single values: numbers, defaults, JSON.
#include <algorithm>
#include <cmath>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/jinja_number.h"
#include "text/json.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

Result<Value> Abs(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.IsFloat()) return Value::Float(std::abs(self.AsDouble()));
  if (!self.IsNumber()) {
    return Err(Code::kInvalidArgument, "abs needs a number, not '{}'", TypeName(self));
  }
  if (self.AsInt() >= 0) return Value::Int(self.AsInt());
  return interp.Arithmetic(Op::kSub, Value::Int(0), self);
}

Result<Value> Attr(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"name"}, 1));
  TRY_ASSIGN(const std::string name, interp.Str(*bound.At(0)));
  // Attributes only, never items: so a dict has its methods and nothing else.
  if (self.IsDict() && FindMethod(self, name) == nullptr) return Value::Undefined(name);
  return interp.Attribute(self, name);
}

Result<Value> Default(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"default_value", "boolean"}));
  const bool boolean = bound.Has(1) && interp.IsTrue(*bound.At(1));
  if (self.IsUndefined() || (boolean && !interp.IsTrue(self))) {
    return bound.Or(0, Value::String(""));
  }
  return self;
}

Result<Value> Float(Interp&, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"default"}));
  if (self.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", self.UndefinedName());
  }
  if (self.IsNumber()) return Value::Float(self.AsDouble());
  if (self.IsString()) {
    if (const auto number = ParsePythonFloat(self.AsString())) return Value::Float(*number);
  }
  return bound.Or(0, Value::Float(0));
}

Result<Value> Int(Interp&, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"default", "base"}));
  TRY_ASSIGN(const int64_t base, bound.Int(1, 10));
  if (self.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", self.UndefinedName());
  }
  if (self.IsInt() || self.IsBool()) return Value::Int(self.AsInt());
  std::optional<double> number;
  if (self.IsFloat()) number = self.AsDouble();
  if (self.IsString()) {
    if (const auto whole = ParsePythonInt(self.AsString(), static_cast<int>(base))) {
      return Value::Int(*whole);
    }
    number = ParsePythonFloat(self.AsString());
  }
  if (!number || !(std::abs(*number) < 9.2e18)) return bound.Or(0, Value::Int(0));
  return Value::Int(static_cast<int64_t>(*number));
}

Result<Value> Round(Interp&, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"precision", "method"}));
  TRY_ASSIGN(const int64_t precision, bound.Int(0, 0));
  TRY_ASSIGN(const std::string_view method, bound.Text(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return Err(Code::kInvalidArgument, "round: method must be common, ceil or floor");
  }
  if (!self.IsNumber()) {
    return Err(Code::kInvalidArgument, "round needs a number, not '{}'", TypeName(self));
  }
  if (precision < -300 || precision > 300) return Value::Float(self.AsDouble());
  if (method == "common" && !self.IsFloat() && precision >= 0) return Value::Int(self.AsInt());
  if (method == "common" && precision >= 0) {
    // Rounds the decimal form, half to even, as Python does.
    const std::string text = fmt::format("{:.{}f}", self.AsDouble(), precision);
    return Value::Float(ParsePythonFloat(text).value_or(self.AsDouble()));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.AsDouble() * scale;
  const double whole = method == "ceil"    ? std::ceil(scaled)
                       : method == "floor" ? std::floor(scaled)
                                           : std::nearbyint(scaled);
  return Value::Float(whole / scale);
}

Result<Value> ToJsonFilter(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound,
             BoundArgs::Bind(args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  ToJsonOptions options;
  options.max_bytes = interp.memory_left();
  options.ensure_ascii = bound.Has(0) && interp.IsTrue(*bound.At(0));
  options.sort_keys = bound.Has(3) && interp.IsTrue(*bound.At(3));
  if (bound.Has(1) && !bound.At(1)->IsNone()) {
    if (bound.At(1)->IsString()) {
      options.indent = bound.At(1)->AsString();
    } else {
      TRY_ASSIGN(const int64_t width, bound.Int(1, 0));
      options.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(width, 0, 100)), ' ');
    }
    options.item_separator = ",";
  }
  if (bound.Has(2) && !bound.At(2)->IsNone()) {
    const Value& pair = *bound.At(2);
    const bool good = pair.IsSequence() && pair.Items().size() == 2 && pair.Items()[0].IsString() &&
                      pair.Items()[1].IsString();
    if (!good) return Err(Code::kInvalidArgument, "tojson: separators must be two strings");
    options.item_separator = pair.Items()[0].AsString();
    options.key_separator = pair.Items()[1].AsString();
  }
  TRY_ASSIGN(std::string text, ToJson(self, options));
  return interp.NewString(std::move(text));
}

constexpr Builtin kFilters[] = {
    {"abs", Abs},     {"attr", Attr}, {"d", Default},   {"default", Default},
    {"float", Float}, {"int", Int},   {"round", Round}, {"tojson", ToJsonFilter},
};

}  // namespace

std::span<const Builtin> ValueFilters() { return kFilters; }

}  // namespace tandem::text::jinja

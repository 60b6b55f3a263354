// What can follow `is`.
#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

// A test of the value alone.
template <bool (*kHolds)(const Value&)>
Result<Value> Plain(Interp&, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  return Value::Bool(kHolds(self));
}

bool IsDefined(const Value& v) { return !v.IsUndefined(); }
bool IsUndefined(const Value& v) { return v.IsUndefined(); }
bool IsNone(const Value& v) { return v.IsNone(); }
bool IsBoolean(const Value& v) { return v.IsBool(); }
bool IsFalse(const Value& v) { return v.IsBool() && !v.AsBool(); }
bool IsTrueValue(const Value& v) { return v.IsBool() && v.AsBool(); }
bool IsInteger(const Value& v) { return v.IsInt(); }
bool IsFloatValue(const Value& v) { return v.IsFloat(); }
bool IsNumberValue(const Value& v) { return v.IsNumber(); }
bool IsStringValue(const Value& v) { return v.IsString(); }
bool IsMapping(const Value& v) { return v.IsDict(); }
bool IsEscaped(const Value& v) { return v.IsSafe(); }
// Python finds __len__ and __getitem__ on an undefined value too.
bool IsSequenceValue(const Value& v) {
  return v.IsSequence() || v.IsString() || v.IsDict() || v.IsUndefined();
}
bool IsIterable(const Value& v) {
  return IsSequenceValue(v) || (v.IsObject() && v.AsObject().TypeName() == "generator");
}
bool IsCallableValue(const Value& v) {
  return v.IsUndefined() || (v.IsObject() && v.AsObject().IsCallable());
}

bool AllCased(const Value& v, bool upper) {
  if (!v.IsString()) return false;
  bool cased = false;
  for (std::string_view rest = v.AsString(); !rest.empty();) {
    const CodePoint c = DecodeUtf8(rest);
    if (upper ? IsLower(c.value) : IsUpper(c.value)) return false;
    cased |= upper ? IsUpper(c.value) : IsLower(c.value);
    rest.remove_prefix(c.bytes);
  }
  return cased;
}
bool IsLowerText(const Value& v) { return AllCased(v, false); }
bool IsUpperText(const Value& v) { return AllCased(v, true); }

bool IsFilterName(const Value& v) { return v.IsString() && FindFilter(v.AsString()) != nullptr; }
bool IsTestName(const Value& v) { return v.IsString() && FindTest(v.AsString()) != nullptr; }

template <Op kOp>
Result<Value> Comparison(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"other"}, 1));
  TRY_ASSIGN(const bool holds, interp.Compare(kOp, self, *bound.At(0)));
  return Value::Bool(holds);
}

Result<Value> SameAs(Interp&, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"other"}, 1));
  return Value::Bool(self.SameAs(*bound.At(0)));
}

template <int kRest>
Result<Value> Parity(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const Value rest, interp.Arithmetic(Op::kMod, self, Value::Int(2)));
  return Value::Bool(Equal(rest, Value::Int(kRest)));
}

Result<Value> DivisibleBy(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"num"}, 1));
  TRY_ASSIGN(const Value rest, interp.Arithmetic(Op::kMod, self, *bound.At(0)));
  return Value::Bool(Equal(rest, Value::Int(0)));
}

constexpr Builtin kTests[] = {
    {"defined", Plain<IsDefined>},
    {"undefined", Plain<IsUndefined>},
    {"none", Plain<IsNone>},
    {"boolean", Plain<IsBoolean>},
    {"false", Plain<IsFalse>},
    {"true", Plain<IsTrueValue>},
    {"integer", Plain<IsInteger>},
    {"float", Plain<IsFloatValue>},
    {"number", Plain<IsNumberValue>},
    {"string", Plain<IsStringValue>},
    {"mapping", Plain<IsMapping>},
    {"sequence", Plain<IsSequenceValue>},
    {"iterable", Plain<IsIterable>},
    {"callable", Plain<IsCallableValue>},
    {"escaped", Plain<IsEscaped>},
    {"lower", Plain<IsLowerText>},
    {"upper", Plain<IsUpperText>},
    {"filter", Plain<IsFilterName>},
    {"test", Plain<IsTestName>},
    {"odd", Parity<1>},
    {"even", Parity<0>},
    {"divisibleby", DivisibleBy},
    {"sameas", SameAs},
    {"in", Comparison<Op::kIn>},
    {"==", Comparison<Op::kEq>},
    {"eq", Comparison<Op::kEq>},
    {"equalto", Comparison<Op::kEq>},
    {"!=", Comparison<Op::kNe>},
    {"ne", Comparison<Op::kNe>},
    {">", Comparison<Op::kGt>},
    {"gt", Comparison<Op::kGt>},
    {"greaterthan", Comparison<Op::kGt>},
    {">=", Comparison<Op::kGe>},
    {"ge", Comparison<Op::kGe>},
    {"<", Comparison<Op::kLt>},
    {"lt", Comparison<Op::kLt>},
    {"lessthan", Comparison<Op::kLt>},
    {"<=", Comparison<Op::kLe>},
    {"le", Comparison<Op::kLe>},
};

}  // namespace

const Builtin* FindTest(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [name](const Builtin& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace tandem::text::jinja

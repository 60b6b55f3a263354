// Operators, subscripts and slices, with Python's rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_builtin.h"
#include "text/jinja_format.h"
#include "text/jinja_interp.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

std::string_view Symbol(Op op) {
  static constexpr std::string_view kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

std::unexpected<Error> BadOperands(Op op, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (side->IsUndefined()) {
      return Err(Code::kInvalidArgument, "'{}' is undefined", side->UndefinedName());
    }
  }
  return Err(Code::kInvalidArgument, "unsupported operands for {}: '{}' and '{}'", Symbol(op),
             TypeName(a), TypeName(b));
}

std::unexpected<Error> TooLarge() { return Err(Code::kUnsupported, "integer beyond 64 bits"); }

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Err(Code::kInvalidArgument, "zero to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Value::Int(result);
}

Result<Value> Integers(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) return TooLarge();
      return Value::Int(result);
    case Op::kPow:
      return IntegerPower(a, b);
    default:
      break;
  }
  if (b == 0) return Err(Code::kInvalidArgument, "division by zero");
  if (op == Op::kDiv) return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  if (a == std::numeric_limits<int64_t>::min() && b == -1) return TooLarge();
  const int64_t quotient = FloorDivide(a, b);
  return Value::Int(op == Op::kFloorDiv ? quotient : a - quotient * b);
}

Result<Value> Floats(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::Float(a + b);
    case Op::kSub:
      return Value::Float(a - b);
    case Op::kMul:
      return Value::Float(a * b);
    case Op::kPow:
      return Value::Float(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return Err(Code::kInvalidArgument, "division by zero");
  if (op == Op::kDiv) return Value::Float(a / b);
  const double quotient = std::floor(a / b);
  if (op == Op::kFloorDiv) return Value::Float(quotient);
  const double rest = std::fmod(a, b);
  return Value::Float(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

// Half-open bounds of a Python slice over `length` elements.
struct Bounds {
  int64_t start;
  int64_t stop;
  int64_t step;
};

Result<Bounds> SliceBounds(int64_t length, const Value& start, const Value& stop,
                           const Value& step) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->IsNone() || bound->IsInt() || bound->IsBool()) continue;
    return Err(Code::kInvalidArgument, "slice bounds must be integers or none, not '{}'",
               TypeName(*bound));
  }
  Bounds bounds{0, length, step.IsNone() ? 1 : step.AsInt()};
  if (bounds.step == 0) return Err(Code::kInvalidArgument, "slice step is zero");
  const bool backwards = bounds.step < 0;
  const int64_t low = backwards ? -1 : 0;
  const int64_t high = backwards ? length - 1 : length;
  const auto place = [&](const Value& bound, int64_t fallback) {
    if (bound.IsNone()) return fallback;
    const int64_t at = bound.AsInt() < 0 ? std::max(bound.AsInt(), -length - 1) + length
                                         : std::min(bound.AsInt(), length);
    return std::clamp(at, low, high);
  };
  bounds.start = place(start, backwards ? high : low);
  bounds.stop = place(stop, backwards ? low : high);
  return bounds;
}

template <class Each>
void ForEachIndex(const Bounds& bounds, Each each) {
  // The step is compared with what is left, so that it cannot overflow.
  if (bounds.step > 0) {
    for (int64_t i = bounds.start; i < bounds.stop; i += bounds.step) {
      each(static_cast<size_t>(i));
      if (bounds.step >= bounds.stop - i) break;
    }
  } else {
    for (int64_t i = bounds.start; i > bounds.stop; i += bounds.step) {
      each(static_cast<size_t>(i));
      if (bounds.step <= bounds.stop - i) break;
    }
  }
}

Result<std::string> SliceText(const std::string& text, const Value& start, const Value& stop,
                              const Value& step) {
  const auto length = static_cast<int64_t>(CountCodePoints(text));
  TRY_ASSIGN(const Bounds bounds, SliceBounds(length, start, stop, step));
  if (bounds.step == 1) {
    if (bounds.stop <= bounds.start) return std::string();
    const size_t from = OffsetOfCodePoint(text, static_cast<size_t>(bounds.start));
    const size_t count = OffsetOfCodePoint(std::string_view(text).substr(from),
                                           static_cast<size_t>(bounds.stop - bounds.start));
    return text.substr(from, count);
  }
  std::vector<uint32_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) offsets.push_back(static_cast<uint32_t>(i));
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  std::string out;
  ForEachIndex(bounds,
               [&](size_t i) { out.append(text, offsets[i], offsets[i + 1] - offsets[i]); });
  return out;
}

}  // namespace

Result<Value> Interp::Arithmetic(Op op, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) return Floats(op, a.AsDouble(), b.AsDouble());
    return Integers(op, a.AsInt(), b.AsInt());
  }
  if (op == Op::kAdd && a.IsString() && b.IsString()) {
    const bool safe = a.IsSafe() || b.IsSafe();
    std::string text = safe && !a.IsSafe() ? Escape(a.AsString()) : a.AsString();
    text += safe && !b.IsSafe() ? Escape(b.AsString()) : b.AsString();
    return NewString(std::move(text), safe);
  }
  if (op == Op::kAdd && a.IsSequence() && a.kind() == b.kind()) {
    TRY(Charge((a.Items().size() + b.Items().size()) * sizeof(Value)));
    std::vector<Value> items = a.Items();
    items.insert(items.end(), b.Items().begin(), b.Items().end());
    return a.kind() == Value::Kind::kList ? NewList(std::move(items)) : NewTuple(std::move(items));
  }
  if (op == Op::kMod && a.IsString()) return PercentFormat(*this, a, b);
  const auto is_count = [](const Value& value) { return value.IsInt() || value.IsBool(); };
  const auto repeats = [](const Value& value) { return value.IsString() || value.IsSequence(); };
  if (op == Op::kMul && repeats(a) && is_count(b)) return Repeat(a, b.AsInt());
  if (op == Op::kMul && is_count(a) && repeats(b)) return Repeat(b, a.AsInt());
  return BadOperands(op, a, b);
}

Result<Value> Interp::Repeat(const Value& value, int64_t times) {
  const size_t unit =
      value.IsString() ? value.AsString().size() : value.Items().size() * sizeof(Value);
  const size_t count = times > 0 && unit > 0 ? static_cast<size_t>(times) : 0;
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit, count, &bytes)) bytes = std::numeric_limits<size_t>::max();
  TRY(Charge(bytes));
  if (value.IsString()) {
    std::string text;
    text.reserve(bytes);
    for (size_t i = 0; i < count; ++i) text += value.AsString();
    return NewString(std::move(text), value.IsSafe());
  }
  std::vector<Value> items;
  for (size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.Items().begin(), value.Items().end());
  }
  return value.kind() == Value::Kind::kList ? NewList(std::move(items))
                                            : NewTuple(std::move(items));
}

Result<bool> Interp::Same(const Value& a, const Value& b) {
  uint64_t left = limits_.steps - std::min(limits_.steps, steps_);
  const uint64_t before = left;
  const bool equal = Equal(a, b, left);
  TRY(Step(before - left + (left == 0 ? 1 : 0)));
  return equal;
}

Result<bool> Interp::Less(const Value& a, const Value& b) {
  TRY(Step());
  if (a.IsNumber() && b.IsNumber()) {
    if (!a.IsFloat() && !b.IsFloat()) return a.AsInt() < b.AsInt();
    return a.AsDouble() < b.AsDouble();
  }
  if (a.IsString() && b.IsString()) return a.AsString() < b.AsString();
  if (!a.IsSequence() || a.kind() != b.kind()) return BadOperands(Op::kLt, a, b);
  const size_t common = std::min(a.Items().size(), b.Items().size());
  for (size_t i = 0; i < common; ++i) {
    TRY_ASSIGN(const bool same, Same(a.Items()[i], b.Items()[i]));
    if (!same) return Less(a.Items()[i], b.Items()[i]);
  }
  return a.Items().size() < b.Items().size();
}

namespace {

Result<bool> Contains(Interp& interp, const Value& container, const Value& item) {
  if (container.IsString()) {
    if (item.IsString()) return container.AsString().find(item.AsString()) != std::string::npos;
    return BadOperands(Op::kIn, item, container);
  }
  if (container.IsDict()) return container.AsDict().Find(item) != nullptr;
  std::vector<Value> taken;
  if (!container.IsSequence()) {
    TRY_ASSIGN(taken, interp.ItemsOf(container));
  }
  for (const Value& each : container.IsSequence() ? container.Items() : taken) {
    TRY_ASSIGN(const bool same, interp.Same(each, item));
    if (same) return true;
  }
  return false;
}

}  // namespace

Result<bool> Interp::Compare(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEq:
      return Same(a, b);
    case Op::kNe: {
      TRY_ASSIGN(const bool same, Same(a, b));
      return !same;
    }
    case Op::kLt:
      return Less(a, b);
    case Op::kGt:
      return Less(b, a);
    case Op::kLe:
    case Op::kGe: {
      // Not the negation of the opposite: NaN is neither less nor equal.
      TRY_ASSIGN(const bool less, op == Op::kLe ? Less(a, b) : Less(b, a));
      if (less) return true;
      return Same(a, b);
    }
    case Op::kIn:
      return Contains(*this, b, a);
    case Op::kNotIn: {
      TRY_ASSIGN(const bool found, Contains(*this, b, a));
      return !found;
    }
    default:
      return BadOperands(op, a, b);
  }
}

Result<Value> Interp::Item(const Value& value, const Value& key) {
  if (value.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", value.UndefinedName());
  }
  const bool index = key.IsInt() || key.IsBool();
  if (index && value.IsSequence()) {
    const auto size = static_cast<int64_t>(value.Items().size());
    const int64_t at = key.AsInt() < 0 ? key.AsInt() + size : key.AsInt();
    if (at >= 0 && at < size) return value.Items()[static_cast<size_t>(at)];
  } else if (index && value.IsString()) {
    const std::string& text = value.AsString();
    TRY(Step(text.size() / 64));
    const auto size = static_cast<int64_t>(CountCodePoints(text));
    const int64_t at = key.AsInt() < 0 ? key.AsInt() + size : key.AsInt();
    if (at >= 0 && at < size) {
      const size_t offset = OffsetOfCodePoint(text, static_cast<size_t>(at));
      const size_t bytes = DecodeUtf8(std::string_view(text).substr(offset)).bytes;
      return NewString(text.substr(offset, bytes), value.IsSafe());
    }
  } else if (value.IsDict()) {
    if (const Value* found = value.AsDict().Find(key)) return *found;
  }
  if (key.IsString()) return Attribute(value, key.AsString());
  return Value::Undefined(index ? fmt::format("[{}]", key.AsInt()) : std::string(TypeName(key)));
}

Result<Value> Interp::Slice(const Value& value, const Value& start, const Value& stop,
                            const Value& step) {
  if (value.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", value.UndefinedName());
  }
  if (value.IsString()) {
    TRY(Step(value.AsString().size() / 64));
    TRY_ASSIGN(std::string text, SliceText(value.AsString(), start, stop, step));
    return NewString(std::move(text), value.IsSafe());
  }
  if (!value.IsSequence()) return Value::Undefined("slice");
  TRY_ASSIGN(const Bounds bounds,
             SliceBounds(static_cast<int64_t>(value.Items().size()), start, stop, step));
  std::vector<Value> items;
  ForEachIndex(bounds, [&](size_t i) { items.push_back(value.Items()[i]); });
  return value.kind() == Value::Kind::kList ? NewList(std::move(items))
                                            : NewTuple(std::move(items));
}

}  // namespace tandem::text::jinja

// Expressions.
#include <algorithm>
#include <optional>
#include <utility>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/value_text.h"

namespace tandem::text::jinja {

Result<Value> Interp::Eval(const Expr& expr, Scope* scope) {
  const Deeper deeper(*this);
  TRY(CheckDepth());
  TRY(Step());
  line_ = expr.line;
  switch (expr.kind) {
    case Expr::Kind::kConst:
      return expr.value;
    case Expr::Kind::kPiped:
      return piped_;
    case Expr::Kind::kName:
      return EvalName(expr, scope);
    case Expr::Kind::kAttr: {
      TRY_ASSIGN(const Value base, Eval(*expr.parts[0], scope));
      return Attribute(base, expr.text);
    }
    case Expr::Kind::kItem:
      return EvalItem(expr, scope);
    case Expr::Kind::kSlice:
      return EvalSlice(expr, scope);
    case Expr::Kind::kCall:
      return EvalCall(expr, scope);
    case Expr::Kind::kFilter:
    case Expr::Kind::kTest:
      return EvalBuiltin(expr, scope);
    case Expr::Kind::kNot: {
      TRY_ASSIGN(const Value part, Eval(*expr.parts[0], scope));
      return Value::Bool(!IsTrue(part));
    }
    case Expr::Kind::kNegate:
    case Expr::Kind::kPlus:
      return EvalSign(expr, scope);
    case Expr::Kind::kArithmetic:
      return EvalArithmetic(expr, scope);
    case Expr::Kind::kCompare:
      return EvalCompare(expr, scope);
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr:
      return EvalLogic(expr, scope);
    case Expr::Kind::kConcat:
      return EvalConcat(expr, scope);
    case Expr::Kind::kConditional:
      return EvalConditional(expr, scope);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple:
      return EvalSequence(expr, scope);
    case Expr::Kind::kDict:
      return EvalDict(expr, scope);
  }
  return Value();
}

Result<Value> Interp::EvalName(const Expr& expr, Scope* scope) {
  if (const Value* found = FindVariable(scope, expr.name)) return *found;
  return Value::Undefined(program_.names[expr.name]);
}

const Value* Interp::Known(const Expr& expr, const Scope* scope) const {
  if (expr.kind == Expr::Kind::kConst) return &expr.value;
  return expr.kind == Expr::Kind::kName ? FindVariable(scope, expr.name) : nullptr;
}

Result<Value> Interp::EvalItem(const Expr& expr, Scope* scope) {
  const Value* known_base = Known(*expr.parts[0], scope);
  const Value* known_key = Known(*expr.parts[1], scope);
  if (known_base != nullptr && known_key != nullptr) {
    TRY(Step(2));
    return Item(*known_base, *known_key);
  }
  TRY_ASSIGN(const Value base, Eval(*expr.parts[0], scope));
  TRY_ASSIGN(const Value key, Eval(*expr.parts[1], scope));
  return Item(base, key);
}

Result<Value> Interp::EvalSlice(const Expr& expr, Scope* scope) {
  TRY_ASSIGN(const Value base, Eval(*expr.parts[0], scope));
  Value bounds[3] = {Value::None(), Value::None(), Value::None()};
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.parts[i + 1]) continue;
    TRY_ASSIGN(bounds[i], Eval(*expr.parts[i + 1], scope));
  }
  return Slice(base, bounds[0], bounds[1], bounds[2]);
}

Result<Value> Interp::EvalSign(const Expr& expr, Scope* scope) {
  TRY_ASSIGN(const Value part, Eval(*expr.parts[0], scope));
  if (!part.IsNumber()) {
    if (part.IsUndefined()) {
      return Err(Code::kInvalidArgument, "'{}' is undefined", part.UndefinedName());
    }
    return Err(Code::kInvalidArgument, "bad operand for a sign: '{}'", TypeName(part));
  }
  const Op op = expr.kind == Expr::Kind::kNegate ? Op::kSub : Op::kAdd;
  if (part.IsFloat()) return Value::Float(op == Op::kSub ? -part.AsDouble() : part.AsDouble());
  return Arithmetic(op, Value::Int(0), part);
}

Result<Value> Interp::EvalArithmetic(const Expr& expr, Scope* scope) {
  const auto plain = [](const Value& value) { return value.IsString() && !value.IsSafe(); };
  TRY_ASSIGN(Value left, Eval(*expr.parts[0], scope));
  // A sum of plain strings grows one text: adding two at a time would copy all before them.
  std::optional<std::string> text;
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value computed;
    const Value* known = Known(*expr.parts[i + 1], scope);
    if (known == nullptr) {
      TRY_ASSIGN(computed, Eval(*expr.parts[i + 1], scope));
    } else {
      TRY(Step());
    }
    const Value& right = known == nullptr ? computed : *known;
    line_ = expr.line;
    if (expr.ops[i] == Op::kAdd && (text || plain(left)) && plain(right)) {
      TRY(Charge(right.AsString().size() + sizeof(Value)));
      if (!text) text = left.AsString();
      text->append(right.AsString());
      continue;
    }
    if (text) {
      TRY_ASSIGN(left, NewString(*std::exchange(text, std::nullopt)));
    }
    TRY_ASSIGN(left, Arithmetic(expr.ops[i], left, right));
  }
  if (text) return NewString(*std::move(text));
  return left;
}

Result<Value> Interp::EvalCompare(const Expr& expr, Scope* scope) {
  TRY_ASSIGN(Value left, Eval(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    TRY_ASSIGN(Value right, Eval(*expr.parts[i + 1], scope));
    TRY_ASSIGN(const bool holds, Compare(expr.ops[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Interp::EvalLogic(const Expr& expr, Scope* scope) {
  const bool stop_at = expr.kind == Expr::Kind::kOr;
  Value last;
  for (const ExprPtr& part : expr.parts) {
    TRY_ASSIGN(last, Eval(*part, scope));
    if (IsTrue(last) == stop_at) break;
  }
  return last;
}

Result<Value> Interp::EvalConcat(const Expr& expr, Scope* scope) {
  std::string out;
  for (const ExprPtr& part : expr.parts) {
    TRY_ASSIGN(const Value value, Eval(*part, scope));
    TRY_ASSIGN(const std::string text, Str(value));
    out += text;
  }
  return NewString(std::move(out));
}

Result<Value> Interp::EvalConditional(const Expr& expr, Scope* scope) {
  TRY_ASSIGN(const Value condition, Eval(*expr.parts[1], scope));
  if (IsTrue(condition)) return Eval(*expr.parts[0], scope);
  if (expr.parts[2]) return Eval(*expr.parts[2], scope);
  return Value::Undefined("the value of an inline if without else");
}

Result<Value> Interp::EvalSequence(const Expr& expr, Scope* scope) {
  std::vector<Value> items;
  items.reserve(expr.parts.size());
  for (const ExprPtr& part : expr.parts) {
    TRY_ASSIGN(Value item, Eval(*part, scope));
    items.push_back(std::move(item));
  }
  return expr.kind == Expr::Kind::kList ? NewList(std::move(items)) : NewTuple(std::move(items));
}

namespace {
bool IsHashable(const Value& key) {
  if (key.IsDict() || key.kind() == Value::Kind::kList) return false;
  if (key.kind() != Value::Kind::kTuple) return true;
  return std::all_of(key.Items().begin(), key.Items().end(), IsHashable);
}
}  // namespace

Result<Value> Interp::EvalDict(const Expr& expr, Scope* scope) {
  Dict dict;
  for (size_t i = 0; i < expr.parts.size(); i += 2) {
    TRY_ASSIGN(Value key, Eval(*expr.parts[i], scope));
    TRY_ASSIGN(Value item, Eval(*expr.parts[i + 1], scope));
    if (!IsHashable(key)) {
      return Err(Code::kInvalidArgument, "a '{}' cannot be a key", TypeName(key));
    }
    TRY(Step(dict.size() / 16));
    dict.Set(std::move(key), std::move(item));
  }
  return NewDict(std::move(dict));
}

Result<CallArgs> Interp::EvalArgs(const Arguments& args, Scope* scope) {
  CallArgs out;
  for (const ExprPtr& arg : args.positional) {
    TRY_ASSIGN(Value value, Eval(*arg, scope));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, arg] : args.named) {
    TRY_ASSIGN(Value value, Eval(*arg, scope));
    out.named.emplace_back(name, std::move(value));
  }
  if (args.star) {
    TRY_ASSIGN(const Value star, Eval(*args.star, scope));
    TRY_ASSIGN(const std::vector<Value> items, ItemsOf(star));
    out.positional.insert(out.positional.end(), items.begin(), items.end());
  }
  if (args.star_star) {
    TRY_ASSIGN(const Value named, Eval(*args.star_star, scope));
    if (!named.IsDict()) return Err(Code::kInvalidArgument, "** needs a dict");
    for (const auto& [key, item] : named.AsDict().entries()) {
      if (!key.IsString()) return Err(Code::kInvalidArgument, "** needs strings as keys");
      out.named.emplace_back(key.AsString(), item);
    }
  }
  return out;
}

// A method call does without the object that a bound method is.
Result<Value> Interp::EvalCall(const Expr& expr, Scope* scope) {
  const Expr& callee = *expr.parts[0];
  if (callee.kind == Expr::Kind::kAttr) {
    TRY_ASSIGN(const Value base, Eval(*callee.parts[0], scope));
    line_ = expr.line;
    if (const Builtin* method = FindMethod(base, callee.text)) {
      TRY_ASSIGN(const CallArgs args, EvalArgs(expr.args, scope));
      return method->run(*this, base, args);
    }
    TRY_ASSIGN(const Value bound, Attribute(base, callee.text));
    TRY_ASSIGN(const CallArgs args, EvalArgs(expr.args, scope));
    line_ = expr.line;
    return Call(bound, args);
  }
  TRY_ASSIGN(const Value function, Eval(callee, scope));
  TRY_ASSIGN(const CallArgs args, EvalArgs(expr.args, scope));
  line_ = expr.line;
  return Call(function, args);
}

Result<Value> Interp::EvalBuiltin(const Expr& expr, Scope* scope) {
  TRY_ASSIGN(const Value input, Eval(*expr.parts[0], scope));
  TRY_ASSIGN(const CallArgs args, EvalArgs(expr.args, scope));
  line_ = expr.line;
  if (expr.builtin == nullptr) {
    return Err(Code::kInvalidArgument, "no {} named '{}'",
               expr.kind == Expr::Kind::kFilter ? "filter" : "test", expr.text);
  }
  return expr.builtin->run(*this, input, args);
}

}  // namespace tandem::text::jinja

// Statements: blocks, loops, assignments, macros.
#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/jinja_loop.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

class Macro final : public Object {
 public:
  Macro(const Stmt& stmt, Scope* closure) : stmt_(stmt), closure_(closure) {}
  std::string_view TypeName() const override { return "Macro"; }
  bool IsCallable() const override { return true; }
  std::optional<Value> Attribute(std::string_view name) override {
    if (name != "name") return std::nullopt;
    return Value::String(stmt_.text);
  }
  Result<Value> Call(Interp& interp, const CallArgs& args) override {
    return interp.CallMacro(stmt_, closure_, args);
  }

 private:
  const Stmt& stmt_;
  Scope* closure_;
};

}  // namespace

const Value* Interp::FindVariable(const Scope* scope, NameId name) const {
  for (; scope != nullptr; scope = scope->parent) {
    for (const auto& [id, value] : scope->variables) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

void Interp::SetVariable(Scope* scope, NameId name, Value value) {
  for (auto& [id, old] : scope->variables) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  scope->variables.emplace_back(name, std::move(value));
}

void Interp::Retire(std::unique_ptr<Scope> scope) {
  if (scope->captured) kept_.push_back(std::move(scope));
}

Status Interp::Emit(std::string_view text) {
  const size_t limit = out_ == &output_ ? limits_.output_bytes : limits_.memory_bytes;
  if (out_ != &output_) TRY(Charge(text.size()));
  if (text.size() > limit - std::min(limit, out_->size())) {
    return Err(Code::kResourceExhausted, "more than {} bytes of output", limit);
  }
  out_->append(text);
  return {};
}

Result<Interp::Flow> Interp::Exec(const std::vector<StmtPtr>& body, Scope* scope) {
  for (const StmtPtr& stmt : body) {
    TRY_ASSIGN(const Flow flow, ExecOne(*stmt, scope));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interp::Flow> Interp::ExecOne(const Stmt& stmt, Scope* scope) {
  const Deeper deeper(*this);
  TRY(CheckDepth());
  TRY(Step());
  line_ = stmt.line;
  switch (stmt.kind) {
    case Stmt::Kind::kText:
      TRY(Emit(stmt.text));
      break;
    case Stmt::Kind::kOutput: {
      TRY_ASSIGN(const Value value, Eval(*stmt.expr, scope));
      if (value.IsString()) {
        TRY(Emit(value.AsString()));
        break;
      }
      TRY_ASSIGN(const std::string text, Str(value));
      TRY(Emit(text));
      break;
    }
    case Stmt::Kind::kIf:
      return ExecIf(stmt, scope);
    case Stmt::Kind::kFor:
      TRY(ExecFor(stmt, scope));
      break;
    case Stmt::Kind::kSet: {
      TRY_ASSIGN(const Value value, Eval(*stmt.expr, scope));
      TRY(Assign(stmt.target, value, scope));
      break;
    }
    case Stmt::Kind::kSetBlock:
      TRY(ExecSetBlock(stmt, scope));
      break;
    case Stmt::Kind::kMacro: {
      TRY_ASSIGN(Value macro, MakeMacro(stmt, scope));
      SetVariable(scope, stmt.name, std::move(macro));
      break;
    }
    case Stmt::Kind::kCallBlock:
      TRY(ExecCallBlock(stmt, scope));
      break;
    case Stmt::Kind::kFilterBlock:
      TRY(ExecFilterBlock(stmt, scope));
      break;
    case Stmt::Kind::kWith:
      return ExecWith(stmt, scope);
    case Stmt::Kind::kScope: {
      auto inner = std::make_unique<Scope>(scope);
      TRY(Exec(stmt.body, inner.get()));
      Retire(std::move(inner));
      break;
    }
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interp::Flow> Interp::ExecIf(const Stmt& stmt, Scope* scope) {
  for (const StmtPtr& branch : stmt.branches) {
    if (branch->expr) {
      TRY_ASSIGN(const Value condition, Eval(*branch->expr, scope));
      if (!IsTrue(condition)) continue;
    }
    return Exec(branch->body, scope);
  }
  return Flow::kNext;
}

Status Interp::ExecFor(const Stmt& stmt, Scope* scope) {
  TRY_ASSIGN(const Value iterable, Eval(*stmt.expr, scope));
  TRY_ASSIGN(std::vector<Value> items, ItemsOf(iterable));
  return Loop(stmt, scope, std::move(items), 0);
}

Result<std::vector<Value>> Interp::FilterItems(const Stmt& stmt, Scope* scope,
                                               std::vector<Value> items) {
  std::vector<Value> passed;
  for (Value& item : items) {
    Scope inner(scope);
    TRY(Assign(stmt.target, item, &inner));
    TRY_ASSIGN(const Value condition, Eval(*stmt.test, &inner));
    if (IsTrue(condition)) passed.push_back(std::move(item));
  }
  return passed;
}

Status Interp::Loop(const Stmt& stmt, Scope* scope, std::vector<Value> items, int depth) {
  if (stmt.test) {
    TRY_ASSIGN(items, FilterItems(stmt, scope, std::move(items)));
  }
  if (items.empty()) {
    auto inner = std::make_unique<Scope>(scope);
    TRY(Exec(stmt.other, inner.get()));
    Retire(std::move(inner));
    return {};
  }
  size_t value_depth = 0;
  for (const Value& item : items) value_depth = std::max(value_depth, item.depth());
  const size_t count = items.size();
  const auto loop = std::make_shared<LoopObject>(std::move(items), depth,
                                                 stmt.recursive ? &stmt : nullptr, scope);
  // A recursive loop may be called after its block has ended, through a variable.
  for (Scope* s = stmt.recursive ? scope : nullptr; s != nullptr; s = s->parent) s->captured = true;
  TRY_ASSIGN(const Value loop_value, NewObject(loop, value_depth));
  for (size_t i = 0; i < count; ++i) {
    TRY(Step());
    loop->MoveTo(i);
    auto inner = std::make_unique<Scope>(scope);
    inner->variables.reserve(4);  // its own, `loop`, and what the body may set
    TRY(Assign(stmt.target, loop->Current(), inner.get()));
    SetVariable(inner.get(), loop_id_, loop_value);
    TRY_ASSIGN(const Flow flow, Exec(stmt.body, inner.get()));
    Retire(std::move(inner));
    if (flow == Flow::kBreak) break;
  }
  return {};
}

Result<std::string> Interp::RunLoop(const Stmt& stmt, Scope* scope, std::vector<Value> items,
                                    int depth) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  const Status status = Loop(stmt, scope, std::move(items), depth);
  out_ = outer;
  TRY(status);
  return text;
}

Result<std::string> Interp::Capture(const std::vector<StmtPtr>& body, Scope* scope) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  auto inner = std::make_unique<Scope>(scope);
  const auto flow = Exec(body, inner.get());
  Retire(std::move(inner));
  out_ = outer;
  TRY(flow);
  return text;
}

Result<Value> Interp::PipeThrough(const Expr* filters, std::string text, Scope* scope) {
  TRY_ASSIGN(Value captured, NewString(std::move(text)));
  if (filters == nullptr) return captured;
  Value outer = std::exchange(piped_, std::move(captured));
  auto piped = Eval(*filters, scope);
  piped_ = std::move(outer);
  return piped;
}

Status Interp::ExecSetBlock(const Stmt& stmt, Scope* scope) {
  TRY_ASSIGN(std::string text, Capture(stmt.body, scope));
  TRY_ASSIGN(const Value value, PipeThrough(stmt.expr.get(), std::move(text), scope));
  return Assign(stmt.target, value, scope);
}

Status Interp::ExecFilterBlock(const Stmt& stmt, Scope* scope) {
  TRY_ASSIGN(std::string text, Capture(stmt.body, scope));
  TRY_ASSIGN(const Value value, PipeThrough(stmt.expr.get(), std::move(text), scope));
  TRY_ASSIGN(const std::string out, Str(value));
  return Emit(out);
}

Status Interp::ExecCallBlock(const Stmt& stmt, Scope* scope) {
  TRY_ASSIGN(Value caller, MakeMacro(stmt, scope));
  TRY_ASSIGN(const Value function, Eval(*stmt.expr->parts[0], scope));
  TRY_ASSIGN(CallArgs args, EvalArgs(stmt.expr->args, scope));
  args.named.emplace_back("caller", std::move(caller));
  TRY_ASSIGN(const Value result, Call(function, args));
  TRY_ASSIGN(const std::string out, Str(result));
  return Emit(out);
}

Result<Interp::Flow> Interp::ExecWith(const Stmt& stmt, Scope* scope) {
  auto inner = std::make_unique<Scope>(scope);
  for (const auto& [target, expr] : stmt.assignments) {
    TRY_ASSIGN(const Value value, Eval(*expr, scope));
    TRY(Assign(target, value, inner.get()));
  }
  TRY_ASSIGN(const Flow flow, Exec(stmt.body, inner.get()));
  Retire(std::move(inner));
  return flow;
}

Status Interp::Assign(const Target& target, const Value& value, Scope* scope) {
  if (target.kind == Target::Kind::kName) {
    SetVariable(scope, target.name, value);
    return {};
  }
  if (target.kind == Target::Kind::kAttribute) {
    const Value* found = FindVariable(scope, target.name);
    auto* space = found != nullptr && found->IsObject()
                      ? dynamic_cast<Namespace*>(&found->AsObject())
                      : nullptr;
    if (space == nullptr) {
      return Err(Code::kInvalidArgument, "cannot assign an attribute of '{}': not a namespace",
                 program_.names[target.name]);
    }
    TRY(Charge(target.attribute.size() + 2 * sizeof(Value)));
    space->Set(target.attribute, value);
    return {};
  }
  TRY_ASSIGN(const std::vector<Value> items, ItemsOf(value));
  if (items.size() != target.items.size()) {
    return Err(Code::kInvalidArgument, "cannot unpack {} values into {} names", items.size(),
               target.items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) TRY(Assign(target.items[i], items[i], scope));
  return {};
}

Result<Value> Interp::MakeMacro(const Stmt& stmt, Scope* scope) {
  TRY(Charge(sizeof(Scope)));
  for (Scope* s = scope; s != nullptr; s = s->parent) s->captured = true;
  return NewObject(std::make_shared<Macro>(stmt, scope), 0);
}

Status Interp::BindParameters(const Stmt& macro, const CallArgs& args, Scope* scope) {
  const size_t count = macro.parameters.size();
  std::vector<const Value*> given(count, nullptr);
  const size_t positional = std::min(count, args.positional.size());
  for (size_t i = 0; i < positional; ++i) given[i] = &args.positional[i];
  Dict extra;
  const Value* caller = nullptr;
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < count && macro.parameters[i].text != name) ++i;
    if (i < count) {
      if (i < positional) {
        return Err(Code::kInvalidArgument, "macro '{}' got argument '{}' twice", macro.text, name);
      }
      given[i] = &value;
    } else if (name == "caller" && macro.takes_caller) {
      caller = &value;
    } else if (macro.takes_kwargs) {
      extra.Set(name, value);
    } else {
      return Err(Code::kInvalidArgument, "macro '{}' takes no argument named '{}'", macro.text,
                 name);
    }
  }
  if (args.positional.size() > count && !macro.takes_varargs) {
    return Err(Code::kInvalidArgument, "macro '{}' takes at most {} arguments, got {}", macro.text,
               count, args.positional.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    Value value;
    if (given[i] != nullptr) {
      value = *given[i];
    } else if (parameter.fallback) {
      TRY_ASSIGN(value, Eval(*parameter.fallback, scope));
    } else {
      value = Value::Undefined(parameter.text);
    }
    SetVariable(scope, parameter.name, std::move(value));
  }
  if (macro.takes_caller) {
    SetVariable(scope, IdOf("caller"), caller != nullptr ? *caller : Value::Undefined("caller"));
  }
  if (macro.takes_kwargs) {
    TRY_ASSIGN(Value named, NewDict(std::move(extra)));
    SetVariable(scope, IdOf("kwargs"), std::move(named));
  }
  if (macro.takes_varargs) {
    TRY_ASSIGN(Value rest,
               NewTuple({args.positional.begin() + static_cast<std::ptrdiff_t>(positional),
                         args.positional.end()}));
    SetVariable(scope, IdOf("varargs"), std::move(rest));
  }
  return {};
}

Result<Value> Interp::CallMacro(const Stmt& macro, Scope* closure, const CallArgs& args) {
  std::string text;
  auto scope = std::make_unique<Scope>(closure);
  TRY(BindParameters(macro, args, scope.get()));
  std::string* const outer = std::exchange(out_, &text);
  const auto flow = Exec(macro.body, scope.get());
  out_ = outer;
  Retire(std::move(scope));
  TRY(flow);
  return NewString(std::move(text));
}

}  // namespace tandem::text::jinja

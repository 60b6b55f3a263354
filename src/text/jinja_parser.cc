#include "text/jinja_parser.h"

#include <utility>

#include "text/jinja_builtin.h"

namespace tandem::text::jinja {
namespace {

// Sets a variable for as long as this lives.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), old_(std::exchange(variable, value)) {}
  ~Restore() { variable_ = old_; }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& variable_;
  T old_;
};

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kOutputEnd:
      return "'}}'";
    case TokenKind::kText:
      return "text";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

bool Parser::IsOp(std::string_view op) const {
  return Now().kind == TokenKind::kOperator && Now().text == op;
}

bool Parser::IsName(std::string_view name) const {
  return Now().kind == TokenKind::kName && Now().text == name;
}

bool Parser::IsAnyName(Names names) const {
  for (const std::string_view name : names) {
    if (IsName(name)) return true;
  }
  return false;
}

bool Parser::SkipOp(std::string_view op) {
  if (!IsOp(op)) return false;
  Take();
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  Take();
  return true;
}

std::unexpected<Error> Parser::Fail(std::string_view what) const {
  return Err(Code::kInvalidArgument, "chat template, line {}: {}", Now().line, what);
}

std::unexpected<Error> Parser::Unexpected(std::string_view wanted) const {
  return Fail(fmt::format("expected {}, got {}", wanted, Describe(Now())));
}

Status Parser::ExpectOp(std::string_view op) {
  if (!SkipOp(op)) return Unexpected(fmt::format("'{}'", op));
  return {};
}

Status Parser::ExpectName(std::string_view name) {
  if (!SkipName(name)) return Unexpected(fmt::format("'{}'", name));
  return {};
}

Status Parser::ExpectBlockEnd() {
  if (Now().kind != TokenKind::kBlockEnd) return Unexpected("'%}'");
  Take();
  return {};
}

Result<std::string> Parser::Identifier() {
  if (Now().kind != TokenKind::kName) return Unexpected("a name");
  return Take().text;
}

Status Parser::CheckNesting() const {
  if (nesting_ > kMaxNesting) return Fail(fmt::format("nested more than {} deep", kMaxNesting));
  return {};
}

NameId Parser::Intern(const std::string& name) {
  const auto [found, added] = ids_.emplace(name, static_cast<NameId>(program_.names.size()));
  if (added) program_.names.push_back(name);
  return found->second;
}

ExprPtr Parser::Make(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = Now().line;
  return expr;
}

StmtPtr Parser::Make(Stmt::Kind kind) const {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = Now().line;
  return stmt;
}

Result<std::unique_ptr<const Program>> Parser::Run() {
  TRY_ASSIGN(program_.body, Statements({}));
  return std::make_unique<const Program>(std::move(program_));
}

Result<std::vector<StmtPtr>> Parser::Statements(Names ends) {
  const Nested nested(*this);
  TRY(CheckNesting());
  std::vector<StmtPtr> out;
  while (true) {
    switch (Now().kind) {
      case TokenKind::kEnd: {
        if (ends.size() > 0) return Unexpected(fmt::format("'{}'", *ends.begin()));
        return out;
      }
      case TokenKind::kText: {
        StmtPtr stmt = Make(Stmt::Kind::kText);
        stmt->text = Take().text;
        out.push_back(std::move(stmt));
        break;
      }
      case TokenKind::kOutputBegin: {
        Take();
        StmtPtr stmt = Make(Stmt::Kind::kOutput);
        TRY_ASSIGN(stmt->expr, TupleOrOne(true, false));
        if (Now().kind != TokenKind::kOutputEnd) return Unexpected("'}}'");
        Take();
        out.push_back(std::move(stmt));
        break;
      }
      case TokenKind::kBlockBegin: {
        Take();
        if (Now().kind != TokenKind::kName) return Unexpected("a tag name");
        if (IsAnyName(ends)) return out;
        TRY_ASSIGN(StmtPtr stmt, Statement());
        out.push_back(std::move(stmt));
        break;
      }
      default:
        return Unexpected("text or a tag");
    }
  }
}

Result<std::vector<StmtPtr>> Parser::BodyUntil(std::string_view end) {
  TRY_ASSIGN(std::vector<StmtPtr> body, Statements({end}));
  Take();
  TRY(ExpectBlockEnd());
  return body;
}

Result<StmtPtr> Parser::Statement() {
  if (IsName("for")) return For();
  if (IsName("if")) return If();
  if (IsName("set")) return Set();
  if (IsName("macro")) return Macro();
  if (IsName("call")) return CallBlock();
  if (IsName("filter")) return FilterBlock();
  if (IsName("with")) return With();
  if (IsName("generation")) return Scope("endgeneration");
  if (IsName("break")) return LoopControl(Stmt::Kind::kBreak);
  if (IsName("continue")) return LoopControl(Stmt::Kind::kContinue);
  if (IsAnyName({"include", "import", "from", "extends", "block", "autoescape"})) {
    return Fail(fmt::format("tag '{}' is not available in chat templates", Now().text));
  }
  return Fail(fmt::format("unknown tag '{}'", Now().text));
}

Result<StmtPtr> Parser::For() {
  StmtPtr stmt = Make(Stmt::Kind::kFor);
  Take();
  TRY_ASSIGN(stmt->target, AssignTarget(true, false));
  TRY(ExpectName("in"));
  TRY_ASSIGN(stmt->expr, TupleOrOne(false, false, {"recursive"}));
  const Restore<bool> hard(soft_, false);
  if (SkipName("if")) {
    TRY_ASSIGN(stmt->test, Expression());
  }
  stmt->recursive = SkipName("recursive");
  TRY(ExpectBlockEnd());
  {
    const Restore<int> loop(loops_, loops_ + 1);
    TRY_ASSIGN(stmt->body, Statements({"endfor", "else"}));
  }
  if (Take().text == "else") {
    TRY(ExpectBlockEnd());
    TRY_ASSIGN(stmt->other, BodyUntil("endfor"));
    return stmt;
  }
  TRY(ExpectBlockEnd());
  return stmt;
}

Result<StmtPtr> Parser::If() {
  const Restore<bool> soft(soft_, true);
  StmtPtr stmt = Make(Stmt::Kind::kIf);
  while (true) {
    const bool has_condition = Take().text != "else";
    StmtPtr branch = Make(Stmt::Kind::kScope);
    if (has_condition) {
      TRY_ASSIGN(branch->expr, TupleOrOne(false, false));
    }
    TRY(ExpectBlockEnd());
    if (has_condition) {
      TRY_ASSIGN(branch->body, Statements({"elif", "else", "endif"}));
    } else {
      TRY_ASSIGN(branch->body, Statements({"endif"}));
    }
    stmt->branches.push_back(std::move(branch));
    if (IsName("endif")) break;
  }
  Take();
  TRY(ExpectBlockEnd());
  return stmt;
}

Result<StmtPtr> Parser::Set() {
  StmtPtr stmt = Make(Stmt::Kind::kSet);
  Take();
  TRY_ASSIGN(stmt->target, AssignTarget(true, true));
  if (SkipOp("=")) {
    TRY_ASSIGN(stmt->expr, TupleOrOne(true, false));
    TRY(ExpectBlockEnd());
    return stmt;
  }
  stmt->kind = Stmt::Kind::kSetBlock;
  if (IsOp("|")) {
    TRY_ASSIGN(stmt->expr, FilterExpr(Make(Expr::Kind::kPiped)));
  }
  TRY(ExpectBlockEnd());
  const Restore<bool> hard(soft_, false);
  const Restore<int> no_loop(loops_, 0);
  TRY_ASSIGN(stmt->body, BodyUntil("endset"));
  return stmt;
}

Status Parser::Signature(Stmt& stmt) {
  TRY(ExpectOp("("));
  while (!IsOp(")")) {
    if (!stmt.parameters.empty()) TRY(ExpectOp(","));
    Parameter parameter;
    TRY_ASSIGN(parameter.text, Identifier());
    parameter.name = Intern(parameter.text);
    if (SkipOp("=")) {
      TRY_ASSIGN(parameter.fallback, Expression());
    } else if (!stmt.parameters.empty() && stmt.parameters.back().fallback) {
      return Fail("a parameter without default follows one with a default");
    }
    stmt.parameters.push_back(std::move(parameter));
  }
  Take();
  return {};
}

// A macro of its own kind of frame: loops outside it cannot be left from inside.
Status Parser::MacroBody(Stmt& stmt, std::string_view end) {
  const Restore<bool> hard(soft_, false);
  const Restore<int> no_loop(loops_, 0);
  const MacroUse outer = std::exchange(use_, {});
  TRY_ASSIGN(stmt.body, BodyUntil(end));
  stmt.takes_varargs = use_.varargs;
  stmt.takes_kwargs = use_.kwargs;
  stmt.takes_caller = use_.caller;
  use_ = {outer.varargs || use_.varargs, outer.kwargs || use_.kwargs, outer.caller || use_.caller};
  return {};
}

Result<StmtPtr> Parser::Macro() {
  StmtPtr stmt = Make(Stmt::Kind::kMacro);
  Take();
  TRY_ASSIGN(stmt->text, Identifier());
  stmt->name = Intern(stmt->text);
  TRY(Signature(*stmt));
  TRY(ExpectBlockEnd());
  TRY(MacroBody(*stmt, "endmacro"));
  return stmt;
}

Result<StmtPtr> Parser::CallBlock() {
  StmtPtr stmt = Make(Stmt::Kind::kCallBlock);
  stmt->text = "caller";
  Take();
  if (IsOp("(")) TRY(Signature(*stmt));
  TRY_ASSIGN(stmt->expr, Expression());
  if (stmt->expr->kind != Expr::Kind::kCall) return Fail("expected a call after 'call'");
  TRY(ExpectBlockEnd());
  TRY(MacroBody(*stmt, "endcall"));
  return stmt;
}

Result<StmtPtr> Parser::FilterBlock() {
  StmtPtr stmt = Make(Stmt::Kind::kFilterBlock);
  Take();
  TRY_ASSIGN(ExprPtr first, Filter(Make(Expr::Kind::kPiped)));
  TRY_ASSIGN(stmt->expr, FilterExpr(std::move(first)));
  TRY(ExpectBlockEnd());
  const Restore<bool> hard(soft_, false);
  const Restore<int> no_loop(loops_, 0);
  TRY_ASSIGN(stmt->body, BodyUntil("endfilter"));
  return stmt;
}

Result<StmtPtr> Parser::With() {
  StmtPtr stmt = Make(Stmt::Kind::kWith);
  Take();
  while (Now().kind != TokenKind::kBlockEnd) {
    if (!stmt->assignments.empty()) TRY(ExpectOp(","));
    TRY_ASSIGN(Target target, AssignTarget(false, false));
    TRY(ExpectOp("="));
    TRY_ASSIGN(ExprPtr value, Expression());
    stmt->assignments.emplace_back(std::move(target), std::move(value));
  }
  TRY(ExpectBlockEnd());
  const Restore<bool> hard(soft_, false);
  TRY_ASSIGN(stmt->body, BodyUntil("endwith"));
  return stmt;
}

Result<StmtPtr> Parser::Scope(std::string_view end) {
  StmtPtr stmt = Make(Stmt::Kind::kScope);
  Take();
  TRY(ExpectBlockEnd());
  const Restore<bool> hard(soft_, false);
  const Restore<int> no_loop(loops_, 0);
  TRY_ASSIGN(stmt->body, BodyUntil(end));
  return stmt;
}

Result<StmtPtr> Parser::LoopControl(Stmt::Kind kind) {
  if (loops_ == 0) return Fail(fmt::format("'{}' outside of a loop", Now().text));
  StmtPtr stmt = Make(kind);
  Take();
  TRY(ExpectBlockEnd());
  return stmt;
}

Result<Target> Parser::AssignTarget(bool with_tuple, bool with_attribute) {
  TRY_ASSIGN(Target first, OneTarget(with_attribute));
  if (!with_tuple || !IsOp(",")) return first;
  Target tuple;
  tuple.kind = Target::Kind::kTuple;
  tuple.line = first.line;
  tuple.items.push_back(std::move(first));
  while (SkipOp(",")) {
    if (IsName("in") || IsOp("=")) break;
    TRY_ASSIGN(Target item, OneTarget(with_attribute));
    tuple.items.push_back(std::move(item));
  }
  return tuple;
}

Result<Target> Parser::OneTarget(bool with_attribute) {
  const Nested nested(*this);
  TRY(CheckNesting());
  if (SkipOp("(")) {
    TRY_ASSIGN(Target inner, AssignTarget(true, with_attribute));
    TRY(ExpectOp(")"));
    return inner;
  }
  if (IsAnyName({"true", "false", "none", "True", "False", "None"})) {
    return Fail(fmt::format("cannot assign to '{}'", Now().text));
  }
  Target target;
  target.line = Now().line;
  TRY_ASSIGN(const std::string name, Identifier());
  target.name = Intern(name);
  if (with_attribute && SkipOp(".")) {
    target.kind = Target::Kind::kAttribute;
    TRY_ASSIGN(target.attribute, Identifier());
  }
  return target;
}

}  // namespace tandem::text::jinja

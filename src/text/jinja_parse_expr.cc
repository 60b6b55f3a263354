#include <utility>

#include "text/jinja_builtin.h"
#include "text/jinja_literal.h"
#include "text/jinja_parser.h"

namespace tandem::text::jinja {

template <class Next>
Result<ExprPtr> Parser::Chain(Next next,
                              std::initializer_list<std::pair<std::string_view, Op>> ops) {
  TRY_ASSIGN(ExprPtr first, (this->*next)());
  ExprPtr chain;
  while (Now().kind == TokenKind::kOperator) {
    const Op* found = nullptr;
    for (const auto& [text, op] : ops) {
      if (Now().text == text) found = &op;
    }
    if (found == nullptr) break;
    if (!chain) {
      chain = Make(Expr::Kind::kArithmetic);
      chain->parts.push_back(std::move(first));
    }
    Take();
    chain->ops.push_back(*found);
    TRY_ASSIGN(ExprPtr part, (this->*next)());
    chain->parts.push_back(std::move(part));
  }
  return chain ? std::move(chain) : std::move(first);
}

Result<ExprPtr> Parser::Expression(bool with_conditional) {
  const Nested nested(*this);
  TRY(CheckNesting());
  return with_conditional ? Conditional() : Or();
}

Result<ExprPtr> Parser::TupleOrOne(bool with_conditional, bool in_parentheses, Names ends) {
  ExprPtr tuple = Make(Expr::Kind::kTuple);
  bool is_tuple = false;
  const auto at_end = [&] {
    return Now().kind == TokenKind::kOutputEnd || Now().kind == TokenKind::kBlockEnd || IsOp(")") ||
           IsAnyName(ends);
  };
  while (true) {
    if (!tuple->parts.empty()) {
      if (!SkipOp(",")) break;
      is_tuple = true;
    }
    if (at_end()) break;
    TRY_ASSIGN(ExprPtr part, Expression(with_conditional));
    tuple->parts.push_back(std::move(part));
  }
  if (is_tuple) return tuple;
  if (!tuple->parts.empty()) return std::move(tuple->parts.front());
  if (!in_parentheses) return Unexpected("an expression");
  return tuple;
}

// What stands in a conditional expression is evaluated only when reached, all of it.
Result<ExprPtr> Parser::Conditional() {
  // Whether this is one is known only behind its first part, so an unknown filter in that part is
  // taken softly and judged again when no `if` follows.
  const bool soft_before = std::exchange(soft_, true);
  const size_t unknown_before = unknown_.size();
  auto first = Or();
  soft_ = soft_before;
  if (!first) return first;
  ExprPtr expr = std::move(*first);
  if (!IsName("if")) {
    if (!soft_ && unknown_.size() > unknown_before) return Fail(unknown_[unknown_before]);
    return expr;
  }
  soft_ = true;
  while (SkipName("if")) {
    ExprPtr conditional = Make(Expr::Kind::kConditional);
    conditional->parts.push_back(std::move(expr));
    auto condition = Or();
    if (!condition) return condition;
    conditional->parts.push_back(std::move(*condition));
    conditional->parts.emplace_back();
    if (SkipName("else")) {
      const Nested nested(*this);
      TRY(CheckNesting());
      auto other = Conditional();
      if (!other) return other;
      conditional->parts.back() = std::move(*other);
    }
    expr = std::move(conditional);
  }
  soft_ = soft_before;
  unknown_.resize(unknown_before);
  return expr;
}

Result<ExprPtr> Parser::Or() {
  TRY_ASSIGN(ExprPtr first, And());
  if (!IsName("or")) return first;
  ExprPtr chain = Make(Expr::Kind::kOr);
  chain->parts.push_back(std::move(first));
  while (SkipName("or")) {
    TRY_ASSIGN(ExprPtr part, And());
    chain->parts.push_back(std::move(part));
  }
  return chain;
}

Result<ExprPtr> Parser::And() {
  TRY_ASSIGN(ExprPtr first, Not());
  if (!IsName("and")) return first;
  ExprPtr chain = Make(Expr::Kind::kAnd);
  chain->parts.push_back(std::move(first));
  while (SkipName("and")) {
    TRY_ASSIGN(ExprPtr part, Not());
    chain->parts.push_back(std::move(part));
  }
  return chain;
}

Result<ExprPtr> Parser::Not() {
  if (!IsName("not")) return Compare();
  const Nested nested(*this);
  TRY(CheckNesting());
  ExprPtr expr = Make(Expr::Kind::kNot);
  Take();
  TRY_ASSIGN(ExprPtr part, Not());
  expr->parts.push_back(std::move(part));
  return expr;
}

Result<ExprPtr> Parser::Compare() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::kEq}, {"!=", Op::kNe},
                                                             {"<", Op::kLt},  {"<=", Op::kLe},
                                                             {">", Op::kGt},  {">=", Op::kGe}};
  TRY_ASSIGN(ExprPtr first, Sum());
  ExprPtr chain = Make(Expr::Kind::kCompare);
  while (true) {
    const size_t before = chain->ops.size();
    for (const auto& [text, op] : kOps) {
      if (IsOp(text)) chain->ops.push_back(op);
    }
    if (IsName("in")) chain->ops.push_back(Op::kIn);
    const bool not_in = IsName("not") && Ahead().kind == TokenKind::kName && Ahead().text == "in";
    if (not_in) {
      Take();
      chain->ops.push_back(Op::kNotIn);
    }
    if (chain->ops.size() == before) break;
    Take();
    if (before == 0) chain->parts.push_back(std::move(first));
    TRY_ASSIGN(ExprPtr part, Sum());
    chain->parts.push_back(std::move(part));
  }
  return chain->ops.empty() ? std::move(first) : std::move(chain);
}

Result<ExprPtr> Parser::Sum() { return Chain(&Parser::Concat, {{"+", Op::kAdd}, {"-", Op::kSub}}); }

Result<ExprPtr> Parser::Concat() {
  TRY_ASSIGN(ExprPtr first, Product());
  if (!IsOp("~")) return first;
  ExprPtr chain = Make(Expr::Kind::kConcat);
  chain->parts.push_back(std::move(first));
  while (SkipOp("~")) {
    TRY_ASSIGN(ExprPtr part, Product());
    chain->parts.push_back(std::move(part));
  }
  return chain;
}

Result<ExprPtr> Parser::Product() {
  return Chain(&Parser::Power,
               {{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}});
}

Result<ExprPtr> Parser::Power() {
  TRY_ASSIGN(ExprPtr first, Unary());
  if (!IsOp("**")) return first;
  ExprPtr chain = Make(Expr::Kind::kArithmetic);
  chain->parts.push_back(std::move(first));
  while (SkipOp("**")) {
    chain->ops.push_back(Op::kPow);
    TRY_ASSIGN(ExprPtr part, Unary());
    chain->parts.push_back(std::move(part));
  }
  return chain;
}

Result<ExprPtr> Parser::Unary(bool with_filter) {
  const Nested nested(*this);
  TRY(CheckNesting());
  ExprPtr expr;
  if (IsOp("-") || IsOp("+")) {
    expr = Make(IsOp("-") ? Expr::Kind::kNegate : Expr::Kind::kPlus);
    Take();
    TRY_ASSIGN(ExprPtr part, Unary(false));
    expr->parts.push_back(std::move(part));
  } else {
    TRY_ASSIGN(expr, Primary());
  }
  TRY_ASSIGN(expr, Postfix(std::move(expr)));
  if (with_filter) return FilterExpr(std::move(expr));
  return expr;
}

Result<ExprPtr> Parser::NamePrimary() {
  ExprPtr expr = Make(Expr::Kind::kConst);
  const std::string name = Take().text;
  if (name == "true" || name == "True") {
    expr->value = Value::Bool(true);
  } else if (name == "false" || name == "False") {
    expr->value = Value::Bool(false);
  } else if (name == "none" || name == "None") {
    expr->value = Value::None();
  } else {
    expr->kind = Expr::Kind::kName;
    expr->name = Intern(name);
    use_.varargs |= name == "varargs";
    use_.kwargs |= name == "kwargs";
    use_.caller |= name == "caller";
  }
  return expr;
}

Result<ExprPtr> Parser::Primary() {
  const TokenKind kind = Now().kind;
  if (kind == TokenKind::kName) return NamePrimary();
  if (IsOp("[")) return ListLiteral();
  if (IsOp("{")) return DictLiteral();
  if (SkipOp("(")) {
    TRY_ASSIGN(ExprPtr inner, TupleOrOne(true, true));
    TRY(ExpectOp(")"));
    return inner;
  }
  ExprPtr expr = Make(Expr::Kind::kConst);
  if (kind == TokenKind::kString) {
    std::string text = Take().text;
    while (Now().kind == TokenKind::kString) text += Take().text;
    expr->value = Value::String(std::move(text));
    return expr;
  }
  if (kind != TokenKind::kInteger && kind != TokenKind::kFloat) return Unexpected("an expression");
  const auto number =
      kind == TokenKind::kInteger ? ParseInteger(Now().text) : ParseFloat(Now().text);
  if (!number) return Fail(fmt::format("number {} is out of range", Now().text));
  Take();
  expr->value = *number;
  return expr;
}

Result<ExprPtr> Parser::ListLiteral() {
  ExprPtr list = Make(Expr::Kind::kList);
  TRY(ExpectOp("["));
  while (!IsOp("]")) {
    if (!list->parts.empty()) TRY(ExpectOp(","));
    if (IsOp("]")) break;
    TRY_ASSIGN(ExprPtr item, Expression());
    list->parts.push_back(std::move(item));
  }
  Take();
  return list;
}

Result<ExprPtr> Parser::DictLiteral() {
  ExprPtr dict = Make(Expr::Kind::kDict);
  TRY(ExpectOp("{"));
  while (!IsOp("}")) {
    if (!dict->parts.empty()) TRY(ExpectOp(","));
    if (IsOp("}")) break;
    TRY_ASSIGN(ExprPtr key, Expression());
    TRY(ExpectOp(":"));
    TRY_ASSIGN(ExprPtr item, Expression());
    dict->parts.push_back(std::move(key));
    dict->parts.push_back(std::move(item));
  }
  Take();
  return dict;
}

Result<ExprPtr> Parser::Postfix(ExprPtr expr) {
  for (int links = 0;; ++links) {
    if (nesting_ + links > kMaxNesting) return Fail("too many parts in one expression");
    if (IsOp(".") || IsOp("[")) {
      TRY_ASSIGN(expr, Subscript(std::move(expr)));
    } else if (IsOp("(")) {
      TRY_ASSIGN(expr, Call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> Parser::FilterExpr(ExprPtr expr) {
  for (int links = 0;; ++links) {
    if (nesting_ + links > kMaxNesting) return Fail("too many parts in one expression");
    if (SkipOp("|")) {
      TRY_ASSIGN(expr, Filter(std::move(expr)));
    } else if (SkipName("is")) {
      TRY_ASSIGN(expr, Test(std::move(expr)));
    } else if (IsOp("(")) {
      TRY_ASSIGN(expr, Call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> Parser::Subscript(ExprPtr base) {
  if (SkipOp(".")) {
    ExprPtr expr = Make(Expr::Kind::kAttr);
    if (Now().kind == TokenKind::kInteger) {
      expr->kind = Expr::Kind::kItem;
      ExprPtr index = Make(Expr::Kind::kConst);
      const auto number = ParseInteger(Take().text);
      if (!number) return Fail("index is out of range");
      index->value = *number;
      expr->parts.push_back(std::move(base));
      expr->parts.push_back(std::move(index));
      return expr;
    }
    TRY_ASSIGN(expr->text, Identifier());
    expr->parts.push_back(std::move(base));
    return expr;
  }
  TRY(ExpectOp("["));
  TRY_ASSIGN(ExprPtr expr, SubscriptPart(std::move(base)));
  if (IsOp(",")) {
    if (expr->kind == Expr::Kind::kSlice) return Fail("a slice in a tuple is not supported");
    ExprPtr tuple = Make(Expr::Kind::kTuple);
    tuple->parts.push_back(std::move(expr->parts[1]));
    while (SkipOp(",")) {
      TRY_ASSIGN(ExprPtr part, Expression());
      tuple->parts.push_back(std::move(part));
    }
    expr->parts[1] = std::move(tuple);
  }
  TRY(ExpectOp("]"));
  return expr;
}

Result<ExprPtr> Parser::SubscriptPart(ExprPtr base) {
  ExprPtr expr = Make(Expr::Kind::kItem);
  expr->parts.push_back(std::move(base));
  ExprPtr first;
  if (!IsOp(":")) {
    TRY_ASSIGN(first, Expression());
  }
  expr->parts.push_back(std::move(first));
  if (!SkipOp(":")) return expr;
  expr->kind = Expr::Kind::kSlice;
  expr->parts.resize(4);
  for (const size_t part : {2, 3}) {
    if (!IsOp(":") && !IsOp("]") && !IsOp(",")) {
      TRY_ASSIGN(expr->parts[part], Expression());
    }
    if (part == 2 && !SkipOp(":")) break;
  }
  return expr;
}

Result<ExprPtr> Parser::Filter(ExprPtr input) {
  ExprPtr expr = Make(Expr::Kind::kFilter);
  TRY_ASSIGN(expr->text, Identifier());
  while (SkipOp(".")) {
    TRY_ASSIGN(const std::string more, Identifier());
    expr->text += "." + more;
  }
  expr->builtin = FindFilter(expr->text);
  if (expr->builtin == nullptr) {
    const std::string what = fmt::format("no filter named '{}'", expr->text);
    if (!soft_) return Fail(what);
    unknown_.push_back(what);
  }
  expr->parts.push_back(std::move(input));
  if (IsOp("(")) TRY(CallArguments(expr->args));
  return expr;
}

Result<ExprPtr> Parser::Test(ExprPtr input) {
  ExprPtr expr = Make(Expr::Kind::kTest);
  const bool negated = SkipName("not");
  TRY_ASSIGN(expr->text, Identifier());
  while (SkipOp(".")) {
    TRY_ASSIGN(const std::string more, Identifier());
    expr->text += "." + more;
  }
  expr->builtin = FindTest(expr->text);
  if (expr->builtin == nullptr) {
    const std::string what = fmt::format("no test named '{}'", expr->text);
    if (!soft_) return Fail(what);
    unknown_.push_back(what);
  }
  expr->parts.push_back(std::move(input));
  const TokenKind kind = Now().kind;
  const bool literal = kind == TokenKind::kString || kind == TokenKind::kInteger ||
                       kind == TokenKind::kFloat || IsOp("[") || IsOp("{");
  const bool name = kind == TokenKind::kName && !IsAnyName({"else", "or", "and"});
  if (IsOp("(")) {
    TRY(CallArguments(expr->args));
  } else if (IsName("is")) {
    return Fail("tests cannot be chained with 'is'");
  } else if (literal || name) {
    TRY_ASSIGN(ExprPtr argument, Primary());
    TRY_ASSIGN(argument, Postfix(std::move(argument)));
    expr->args.positional.push_back(std::move(argument));
  }
  if (!negated) return expr;
  ExprPtr inverse = Make(Expr::Kind::kNot);
  inverse->parts.push_back(std::move(expr));
  return inverse;
}

Result<ExprPtr> Parser::Call(ExprPtr callee) {
  ExprPtr expr = Make(Expr::Kind::kCall);
  expr->parts.push_back(std::move(callee));
  TRY(CallArguments(expr->args));
  return expr;
}

Status Parser::CallArguments(Arguments& args) {
  TRY(ExpectOp("("));
  bool first = true;
  while (!IsOp(")")) {
    if (!first) {
      TRY(ExpectOp(","));
      if (IsOp(")")) break;
    }
    first = false;
    if (SkipOp("*")) {
      if (args.star || args.star_star) return Fail("unexpected '*' argument");
      TRY_ASSIGN(args.star, Expression());
    } else if (SkipOp("**")) {
      if (args.star_star) return Fail("unexpected '**' argument");
      TRY_ASSIGN(args.star_star, Expression());
    } else if (Now().kind == TokenKind::kName && Ahead().kind == TokenKind::kOperator &&
               Ahead().text == "=") {
      if (args.star_star) return Fail("named argument after '**'");
      std::string name = Take().text;
      Take();
      TRY_ASSIGN(ExprPtr value, Expression());
      args.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (args.star || args.star_star || !args.named.empty()) {
        return Fail("positional argument after a named one");
      }
      TRY_ASSIGN(ExprPtr value, Expression());
      args.positional.push_back(std::move(value));
    }
  }
  Take();
  return {};
}

}  // namespace tandem::text::jinja

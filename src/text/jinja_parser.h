#ifndef TANDEM_TEXT_JINJA_PARSER_H_
#define TANDEM_TEXT_JINJA_PARSER_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace tandem::text::jinja {

// Recursive descent over Jinja's grammar; nesting is bounded, so that neither parsing nor anything
// that walks the tree exhausts the stack.
class Parser {
 public:
  static constexpr int kMaxNesting = 100;

  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Result<std::unique_ptr<const Program>> Run();

 private:
  struct Nested {
    explicit Nested(Parser& p) : parser(p) { ++parser.nesting_; }
    ~Nested() { --parser.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Parser& parser;
  };
  // Which of the names that only macros have the body so far mentions.
  struct MacroUse {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };
  using Names = std::initializer_list<std::string_view>;

  const Token& Now() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take() {
    return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : Token(tokens_[at_]);
  }
  bool IsOp(std::string_view op) const;
  bool IsName(std::string_view name) const;
  bool IsAnyName(Names names) const;
  bool SkipOp(std::string_view op);
  bool SkipName(std::string_view name);
  Status ExpectOp(std::string_view op);
  Status ExpectName(std::string_view name);
  Status ExpectBlockEnd();
  Result<std::string> Identifier();
  std::unexpected<Error> Fail(std::string_view what) const;
  std::unexpected<Error> Unexpected(std::string_view wanted) const;
  Status CheckNesting() const;
  NameId Intern(const std::string& name);
  ExprPtr Make(Expr::Kind kind) const;
  StmtPtr Make(Stmt::Kind kind) const;

  // Statements, jinja_parser.cc. Statements stop at a block whose name is one of `ends`, which is
  // left with its name as the current token.
  Result<std::vector<StmtPtr>> Statements(Names ends);
  Result<std::vector<StmtPtr>> BodyUntil(std::string_view end);
  Result<StmtPtr> Statement();
  Result<StmtPtr> For();
  Result<StmtPtr> If();
  Result<StmtPtr> Set();
  Result<StmtPtr> Macro();
  Result<StmtPtr> CallBlock();
  Result<StmtPtr> FilterBlock();
  Result<StmtPtr> With();
  Result<StmtPtr> Scope(std::string_view end);
  Result<StmtPtr> LoopControl(Stmt::Kind kind);
  Status Signature(Stmt& stmt);
  Status MacroBody(Stmt& stmt, std::string_view end);
  Result<Target> AssignTarget(bool with_tuple, bool with_attribute);
  Result<Target> OneTarget(bool with_attribute);

  // Expressions, jinja_parse_expr.cc.
  Result<ExprPtr> Expression(bool with_conditional = true);
  // A tuple where commas follow, else one expression. In parentheses it may be empty.
  Result<ExprPtr> TupleOrOne(bool with_conditional, bool in_parentheses, Names ends = {});
  Result<ExprPtr> Conditional();
  Result<ExprPtr> Or();
  Result<ExprPtr> And();
  Result<ExprPtr> Not();
  Result<ExprPtr> Compare();
  Result<ExprPtr> Sum();
  Result<ExprPtr> Concat();
  Result<ExprPtr> Product();
  Result<ExprPtr> Power();
  Result<ExprPtr> Unary(bool with_filter = true);
  Result<ExprPtr> Primary();
  Result<ExprPtr> NamePrimary();
  Result<ExprPtr> ListLiteral();
  Result<ExprPtr> DictLiteral();
  Result<ExprPtr> Postfix(ExprPtr expr);
  Result<ExprPtr> FilterExpr(ExprPtr expr);
  Result<ExprPtr> Subscript(ExprPtr expr);
  Result<ExprPtr> SubscriptPart(ExprPtr base);
  Result<ExprPtr> Filter(ExprPtr input);
  Result<ExprPtr> Test(ExprPtr input);
  Result<ExprPtr> Call(ExprPtr callee);
  Status CallArguments(Arguments& args);
  template <class Next>
  Result<ExprPtr> Chain(Next next, std::initializer_list<std::pair<std::string_view, Op>> ops);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // for loops around the current statement, within its macro
  // In an if or a conditional expression an unknown filter or test is an error only once reached.
  bool soft_ = false;
  std::vector<std::string> unknown_;  // complaints about names that were taken softly
  MacroUse use_;
  std::unordered_map<std::string, NameId> ids_;
  Program program_;
};

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_PARSER_H_

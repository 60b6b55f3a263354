// The syntax tree of a template. Built once, then only read.
#ifndef TANDEM_TEXT_JINJA_AST_H_
#define TANDEM_TEXT_JINJA_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/value.h"

namespace tandem::text::jinja {

struct Builtin;  // a filter or test, jinja_builtin.h
struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using NameId = uint32_t;  // index into Program::names

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
};

struct Expr {
  enum class Kind : uint8_t {
    kConst,       // value
    kPiped,       // what a filter block or filtered set-block captured
    kName,        // name
    kAttr,        // parts[0].text
    kItem,        // parts[0][parts[1]]
    kSlice,       // parts[0][parts[1]:parts[2]:parts[3]], the last three may be null
    kCall,        // parts[0](args)
    kFilter,      // parts[0]|text(args)
    kTest,        // parts[0] is text(args)
    kNot,         // not parts[0]
    kNegate,      // -parts[0]
    kPlus,        // +parts[0]
    kArithmetic,  // parts joined by ops, left to right
    kCompare,     // parts joined by ops, all must hold
    kAnd,
    kOr,
    kConcat,       // parts joined by ~
    kConditional,  // parts[0] if parts[1] else parts[2], which may be null
    kList,
    kTuple,
    kDict,  // keys and values in turn
  };

  Kind kind = Kind::kConst;
  uint32_t line = 0;
  NameId name = 0;
  std::string text;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<Op> ops;
  Arguments args;
  const Builtin* builtin = nullptr;  // null: an unknown name, an error once it is reached
};

struct Target {
  enum class Kind : uint8_t { kName, kTuple, kAttribute };
  Kind kind = Kind::kName;
  uint32_t line = 0;
  NameId name = 0;
  std::string attribute;  // kAttribute: name.attribute, of a namespace
  std::vector<Target> items;
};

struct Parameter {
  NameId name = 0;
  std::string text;
  ExprPtr fallback;  // null: undefined where not given
};

struct Stmt {
  enum class Kind : uint8_t {
    kText,         // text
    kOutput,       // expr
    kIf,           // branches, each with expr and body; the last may be without expr
    kFor,          // target in expr if test: body, else other
    kSet,          // target = expr
    kSetBlock,     // target = body, through the filters of expr (null: none)
    kMacro,        // name(parameters): body
    kCallBlock,    // expr is the call; parameters and body make its caller
    kFilterBlock,  // expr with body piped in
    kWith,         // targets = values, body
    kScope,        // body
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kText;
  uint32_t line = 0;
  bool recursive = false;      // kFor
  bool takes_varargs = false;  // kMacro, kCallBlock: the body names varargs, kwargs, caller
  bool takes_kwargs = false;
  bool takes_caller = false;
  NameId name = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr test;
  Target target;
  std::vector<Parameter> parameters;
  std::vector<StmtPtr> body;
  std::vector<StmtPtr> other;
  std::vector<StmtPtr> branches;  // of kIf: kScope statements, whose expr is the condition
  std::vector<std::pair<Target, ExprPtr>> assignments;  // of kWith
};

struct Program {
  std::vector<std::string> names;
  std::vector<StmtPtr> body;
};

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_AST_H_

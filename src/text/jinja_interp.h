// Runs a program: one Interp is one rendering. It keeps account of steps, memory, output and depth.
#ifndef TANDEM_TEXT_JINJA_INTERP_H_
#define TANDEM_TEXT_JINJA_INTERP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/jinja_ast.h"
#include "text/jinja_object.h"
#include "text/value.h"

namespace tandem::text::jinja {

// Variables of one block; names resolve outwards through `parent`.
struct Scope {
  explicit Scope(Scope* outer) : parent(outer) {}
  Scope* parent;
  bool captured = false;  // a macro was defined inside: the scope outlives its block
  std::vector<std::pair<NameId, Value>> variables;
};

class Interp {
 public:
  Interp(const Program& program, const RenderLimits& limits, int64_t now);
  ~Interp();
  Interp(const Interp&) = delete;
  Interp& operator=(const Interp&) = delete;

  Result<std::string> Run(const std::vector<std::pair<std::string_view, Value>>& variables);

  int64_t now() const { return now_; }

  // Budgets. Charge comes before the memory is used, where its size is known.
  Status Step(uint64_t count = 1);
  Status Charge(size_t bytes);
  size_t memory_left() const { return limits_.memory_bytes - memory_; }

  // New values, charged and bounded in depth.
  Result<Value> NewString(std::string text, bool safe = false);
  Result<Value> NewList(std::vector<Value> items);
  Result<Value> NewTuple(std::vector<Value> items);
  Result<Value> NewDict(Dict dict);
  Result<Value> NewGenerator(Result<std::vector<Value>> items);
  Result<Value> NewObject(std::shared_ptr<Object> object, size_t depth);
  Result<Value> NewNamespace(const std::vector<std::pair<std::string, Value>>& attributes);

  // What Python does with values.
  bool IsTrue(const Value& value) const;
  Result<std::string> Str(const Value& value);
  Result<std::vector<Value>> ItemsOf(const Value& value);  // iterates: list, str, dict keys, ...
  Result<int64_t> LengthOf(const Value& value);
  Result<Value> Attribute(const Value& value, std::string_view name);  // value.name
  Result<Value> Item(const Value& value, const Value& key);            // value[key]
  Result<Value> Slice(const Value& value, const Value& start, const Value& stop, const Value& step);
  Result<Value> Call(const Value& callee, const CallArgs& args);
  Result<Value> Arithmetic(Op op, const Value& a, const Value& b);
  Result<Value> Repeat(const Value& value, int64_t times);  // of a string, list or tuple
  Result<bool> Compare(Op op, const Value& a, const Value& b);
  Result<bool> Less(const Value& a, const Value& b);
  Result<bool> Same(const Value& a, const Value& b);  // ==

  // Macros and recursive loops.
  Result<Value> CallMacro(const Stmt& macro, Scope* closure, const CallArgs& args);
  Result<std::string> RunLoop(const Stmt& loop, Scope* scope, std::vector<Value> items, int depth);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  // One more nested evaluation for as long as it lives.
  struct Deeper {
    explicit Deeper(Interp& interp) : depth(interp.depth_) { ++depth; }
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    uint32_t& depth;
  };
  Status CheckDepth() const;

  // jinja_exec.cc
  Result<Flow> Exec(const std::vector<StmtPtr>& body, Scope* scope);
  Result<Flow> ExecOne(const Stmt& stmt, Scope* scope);
  Result<Flow> ExecIf(const Stmt& stmt, Scope* scope);
  Status ExecFor(const Stmt& stmt, Scope* scope);
  Status ExecSetBlock(const Stmt& stmt, Scope* scope);
  Status ExecCallBlock(const Stmt& stmt, Scope* scope);
  Status ExecFilterBlock(const Stmt& stmt, Scope* scope);
  Result<Flow> ExecWith(const Stmt& stmt, Scope* scope);
  Status Loop(const Stmt& stmt, Scope* scope, std::vector<Value> items, int depth);
  Result<std::vector<Value>> FilterItems(const Stmt& stmt, Scope* scope, std::vector<Value> items);
  Result<std::string> Capture(const std::vector<StmtPtr>& body, Scope* scope);
  Result<Value> PipeThrough(const Expr* filters, std::string text, Scope* scope);
  Result<Value> MakeMacro(const Stmt& stmt, Scope* scope);
  Status Emit(std::string_view text);
  Status Assign(const Target& target, const Value& value, Scope* scope);
  Status BindParameters(const Stmt& macro, const CallArgs& args, Scope* scope);
  void SetVariable(Scope* scope, NameId name, Value value);
  const Value* FindVariable(const Scope* scope, NameId name) const;
  NameId IdOf(std::string_view name) const;
  void Retire(std::unique_ptr<Scope> scope);

  // jinja_eval.cc
  Result<Value> Eval(const Expr& expr, Scope* scope);
  // The value of a constant or a variable where it is, until the next evaluation; null for others.
  const Value* Known(const Expr& expr, const Scope* scope) const;
  Result<Value> EvalName(const Expr& expr, Scope* scope);
  Result<Value> EvalArithmetic(const Expr& expr, Scope* scope);
  Result<Value> EvalCompare(const Expr& expr, Scope* scope);
  Result<Value> EvalLogic(const Expr& expr, Scope* scope);
  Result<Value> EvalConcat(const Expr& expr, Scope* scope);
  Result<Value> EvalConditional(const Expr& expr, Scope* scope);
  Result<Value> EvalSequence(const Expr& expr, Scope* scope);
  Result<Value> EvalDict(const Expr& expr, Scope* scope);
  Result<Value> EvalSlice(const Expr& expr, Scope* scope);
  Result<Value> EvalItem(const Expr& expr, Scope* scope);
  Result<Value> EvalSign(const Expr& expr, Scope* scope);
  Result<Value> EvalCall(const Expr& expr, Scope* scope);
  Result<Value> EvalBuiltin(const Expr& expr, Scope* scope);
  Result<CallArgs> EvalArgs(const Arguments& args, Scope* scope);

  const Program& program_;
  RenderLimits limits_;
  int64_t now_;
  uint64_t steps_ = 0;
  size_t memory_ = 0;
  uint32_t depth_ = 0;
  uint32_t line_ = 0;  // of what is evaluated, for messages
  std::string output_;
  std::string* out_ = &output_;  // where text goes: the output, or what a block captures
  Value piped_;
  Scope globals_{nullptr};
  NameId loop_id_;
  std::vector<std::unique_ptr<Scope>> kept_;  // captured scopes of blocks that have ended
  // shared_ptr: a namespace is also held by the values that refer to it.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_INTERP_H_

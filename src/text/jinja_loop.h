// The variable `loop`.
#ifndef TANDEM_TEXT_JINJA_LOOP_H_
#define TANDEM_TEXT_JINJA_LOOP_H_

#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_object.h"

namespace tandem::text::jinja {

struct Scope;

class LoopObject final : public Object {
 public:
  // recursive: the statement to run again when the loop is called; null where it is not recursive.
  LoopObject(std::vector<Value> items, int depth, const Stmt* recursive, Scope* scope)
      : items_(std::move(items)), depth_(depth), recursive_(recursive), scope_(scope) {}

  void MoveTo(size_t index) { index_ = index; }
  const Value& Current() const { return items_[index_]; }

  std::string_view TypeName() const override { return "LoopContext"; }
  std::optional<Value> Attribute(std::string_view name) override;
  bool IsCallable() const override { return recursive_ != nullptr; }
  Result<Value> Call(Interp& interp, const CallArgs& args) override;

  // loop.cycle(...) and loop.changed(...)
  Result<Value> Cycle(const CallArgs& args) const;
  bool Changed(const CallArgs& args);

 private:
  std::vector<Value> items_;
  int depth_;
  const Stmt* recursive_;
  Scope* scope_;
  size_t index_ = 0;
  bool has_last_ = false;
  std::vector<Value> last_;  // what loop.changed saw last
};

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_LOOP_H_

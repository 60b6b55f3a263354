// Values that only the interpreter makes: functions, namespaces, loops, one-way iterators.
#ifndef TANDEM_TEXT_JINJA_OBJECT_H_
#define TANDEM_TEXT_JINJA_OBJECT_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/value.h"

namespace tandem::text {

namespace jinja {
class Interp;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};
}  // namespace jinja

class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual std::string_view TypeName() const = 0;
  virtual bool IsCallable() const { return false; }
  virtual Result<Value> Call(jinja::Interp& interp, const jinja::CallArgs& args);
  // Nothing where there is no such attribute.
  virtual std::optional<Value> Attribute(std::string_view name);
  // The items that are left; fails for what is not iterable.
  virtual Result<std::vector<Value>> TakeItems();
};

namespace jinja {

// What map, select, batch and their like return: true whatever it holds, without length or index,
// and empty after its first use, as Python's generators. Their errors too come up only when used.
class Generator final : public Object {
 public:
  explicit Generator(Result<std::vector<Value>> items) : items_(std::move(items)) {}
  std::string_view TypeName() const override { return "generator"; }
  Result<std::vector<Value>> TakeItems() override {
    return std::exchange(items_, std::vector<Value>());
  }

 private:
  Result<std::vector<Value>> items_;
};

// The interpreter keeps every namespace until the end of the rendering and then empties it, so that
// namespaces that hold each other are freed, and without deep recursion.
class Namespace final : public Object {
 public:
  std::string_view TypeName() const override { return "Namespace"; }
  std::optional<Value> Attribute(std::string_view name) override;
  void Set(std::string_view name, Value value);
  void Clear() { attributes_ = {}; }

 private:
  Dict attributes_;
};

// A built-in function or a method bound to its value.
class Function final : public Object {
 public:
  using Run = Result<Value> (*)(Interp& interp, const Value& self, const CallArgs& args);

  Function(Run run, Value self) : run_(run), self_(std::move(self)) {}
  std::string_view TypeName() const override { return "function"; }
  bool IsCallable() const override { return true; }
  Result<Value> Call(Interp& interp, const CallArgs& args) override {
    return run_(interp, self_, args);
  }

 private:
  Run run_;
  Value self_;
};

}  // namespace jinja
}  // namespace tandem::text

#endif  // TANDEM_TEXT_JINJA_OBJECT_H_

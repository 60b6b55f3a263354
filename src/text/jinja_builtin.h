// Tables of what templates can name, and the reading of arguments.
#ifndef TANDEM_TEXT_JINJA_BUILTIN_H_
#define TANDEM_TEXT_JINJA_BUILTIN_H_

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_object.h"
#include "text/value.h"

namespace tandem::text::jinja {

struct Builtin {
  std::string_view name;
  Function::Run run;  // self: the value before `|`, `is` or the dot
};

const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
// A method that the sandbox allows for this kind of value.
const Builtin* FindMethod(const Value& self, std::string_view name);
// A method that would change its value: present, but the sandbox refuses it.
bool IsForbidden(const Builtin& method);
std::span<const Builtin> GlobalFunctions();

// Tables by area, joined by the functions above.
std::span<const Builtin> TextFilters();
std::span<const Builtin> SequenceFilters();
std::span<const Builtin> ValueFilters();
std::span<const Builtin> StringMethods();
std::span<const Builtin> CyclerMethods(const Value& self);  // empty for other objects

// Arguments by the names of the parameters; null where not given. Fails on unknown names, on too
// many, and where one of the first `required` is missing.
class BoundArgs {
 public:
  static Result<BoundArgs> Bind(const CallArgs& args, std::initializer_list<std::string_view> names,
                                size_t required = 0);

  const Value* At(size_t index) const { return slots_[index]; }
  bool Has(size_t index) const { return slots_[index] != nullptr; }
  const Value& Or(size_t index, const Value& fallback) const {
    return Has(index) ? *At(index) : fallback;
  }
  // Values of the wanted kind, or the fallback where not given.
  Result<int64_t> Int(size_t index, int64_t fallback) const;
  Result<std::string_view> Text(size_t index, std::string_view fallback) const;

 private:
  std::vector<const Value*> slots_;
  std::vector<std::string_view> names_;
};

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_BUILTIN_H_

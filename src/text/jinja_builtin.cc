#include "text/jinja_builtin.h"

#include <algorithm>

#include "text/jinja_interp.h"
#include "text/jinja_loop.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

const Builtin* FindIn(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Result<Value> DictGet(Interp&, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"key", "default"}, 1));
  const Value* found = self.AsDict().Find(*bound.At(0));
  return found != nullptr ? *found : bound.Or(1, Value::None());
}

Result<Value> DictItems(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  std::vector<Value> items;
  for (const auto& [key, item] : self.AsDict().entries()) {
    TRY_ASSIGN(Value pair, interp.NewTuple({key, item}));
    items.push_back(std::move(pair));
  }
  return interp.NewList(std::move(items));
}

Result<Value> DictKeys(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(std::vector<Value> keys, interp.ItemsOf(self));
  return interp.NewList(std::move(keys));
}

Result<Value> DictValues(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  std::vector<Value> values;
  for (const auto& [key, item] : self.AsDict().entries()) values.push_back(item);
  return interp.NewList(std::move(values));
}

Result<Value> CopyOf(Interp&, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  return self;
}

Result<Value> SequenceIndex(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"value"}, 1));
  for (size_t i = 0; i < self.Items().size(); ++i) {
    TRY_ASSIGN(const bool same, interp.Same(self.Items()[i], *bound.At(0)));
    if (same) return Value::Int(static_cast<int64_t>(i));
  }
  return Err(Code::kInvalidArgument, "index: the value is not in the list");
}

Result<Value> SequenceCount(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"value"}, 1));
  int64_t count = 0;
  for (const Value& item : self.Items()) {
    TRY_ASSIGN(const bool same, interp.Same(item, *bound.At(0)));
    count += same ? 1 : 0;
  }
  return Value::Int(count);
}

LoopObject& LoopOf(const Value& self) { return static_cast<LoopObject&>(self.AsObject()); }

Result<Value> LoopCycle(Interp&, const Value& self, const CallArgs& args) {
  return LoopOf(self).Cycle(args);
}

Result<Value> LoopChanged(Interp&, const Value& self, const CallArgs& args) {
  return Value::Bool(LoopOf(self).Changed(args));
}

Result<Value> Forbidden(Interp&, const Value& self, const CallArgs&) {
  return Err(Code::kInvalidArgument, "the sandbox forbids changing a '{}'", TypeName(self));
}

constexpr Builtin kDictMethods[] = {
    {"get", DictGet},          {"items", DictItems},  {"keys", DictKeys}, {"values", DictValues},
    {"copy", CopyOf},          {"clear", Forbidden},  {"pop", Forbidden}, {"popitem", Forbidden},
    {"setdefault", Forbidden}, {"update", Forbidden},
};

constexpr Builtin kListMethods[] = {
    {"index", SequenceIndex}, {"count", SequenceCount}, {"copy", CopyOf},
    {"append", Forbidden},    {"clear", Forbidden},     {"extend", Forbidden},
    {"insert", Forbidden},    {"pop", Forbidden},       {"remove", Forbidden},
    {"reverse", Forbidden},   {"sort", Forbidden},
};

constexpr Builtin kTupleMethods[] = {{"index", SequenceIndex}, {"count", SequenceCount}};
constexpr Builtin kLoopMethods[] = {{"cycle", LoopCycle}, {"changed", LoopChanged}};

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  for (const std::span<const Builtin> table : {TextFilters(), SequenceFilters(), ValueFilters()}) {
    if (const Builtin* found = FindIn(table, name)) return found;
  }
  return nullptr;
}

const Builtin* FindMethod(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Value::Kind::kString:
      return FindIn(StringMethods(), name);
    case Value::Kind::kDict:
      return FindIn(kDictMethods, name);
    case Value::Kind::kList:
      return FindIn(kListMethods, name);
    case Value::Kind::kTuple:
      return FindIn(kTupleMethods, name);
    case Value::Kind::kObject:
      if (dynamic_cast<LoopObject*>(&self.AsObject()) == nullptr) {
        return FindIn(CyclerMethods(self), name);
      }
      return FindIn(kLoopMethods, name);
    default:
      return nullptr;
  }
}

bool IsForbidden(const Builtin& method) { return method.run == Forbidden; }

Result<BoundArgs> BoundArgs::Bind(const CallArgs& args,
                                  std::initializer_list<std::string_view> names, size_t required) {
  BoundArgs bound;
  bound.names_ = names;
  bound.slots_.resize(names.size(), nullptr);
  if (args.positional.size() > names.size()) {
    return Err(Code::kInvalidArgument, "takes at most {} arguments, got {}", names.size(),
               args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) bound.slots_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return Err(Code::kInvalidArgument, "no argument named '{}'", name);
    bound.slots_[static_cast<size_t>(found - names.begin())] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound.slots_[i] == nullptr) {
      return Err(Code::kInvalidArgument, "argument '{}' is missing", bound.names_[i]);
    }
  }
  return bound;
}

Result<int64_t> BoundArgs::Int(size_t index, int64_t fallback) const {
  if (!Has(index)) return fallback;
  if (At(index)->IsInt() || At(index)->IsBool()) return At(index)->AsInt();
  return Err(Code::kInvalidArgument, "argument '{}' must be an integer, not '{}'", names_[index],
             TypeName(*At(index)));
}

Result<std::string_view> BoundArgs::Text(size_t index, std::string_view fallback) const {
  if (!Has(index)) return fallback;
  if (At(index)->IsString()) return At(index)->AsString();
  return Err(Code::kInvalidArgument, "argument '{}' must be a string, not '{}'", names_[index],
             TypeName(*At(index)));
}

}  // namespace tandem::text::jinja

// Functions that every template can call.
#include <algorithm>
#include <ctime>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

// As many items as Jinja's sandbox lets range have.
constexpr int64_t kMaxRange = 100000;

Result<Value> Range(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"a", "b", "step"}, 1));
  TRY_ASSIGN(const int64_t first, bound.Int(0, 0));
  TRY_ASSIGN(const int64_t second, bound.Int(1, 0));
  TRY_ASSIGN(const int64_t step, bound.Int(2, 1));
  const int64_t start = bound.Has(1) ? first : 0;
  const int64_t stop = bound.Has(1) ? second : first;
  if (step == 0) return Err(Code::kInvalidArgument, "range: step is zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() >= kMaxRange) {
      return Err(Code::kInvalidArgument, "range: more than {} items", kMaxRange);
    }
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return interp.NewList(std::move(items));
}

Status AddPairs(Interp& interp, const Value& source, Dict& dict) {
  if (source.IsDict()) {
    for (const auto& [key, item] : source.AsDict().entries()) dict.Set(key, item);
    return {};
  }
  TRY_ASSIGN(const std::vector<Value> pairs, interp.ItemsOf(source));
  for (const Value& pair : pairs) {
    TRY_ASSIGN(const std::vector<Value> both, interp.ItemsOf(pair));
    if (both.size() != 2) return Err(Code::kInvalidArgument, "dict: items must be pairs");
    TRY(interp.Step(1 + (both[0].IsString() ? 0 : dict.size())));
    dict.Set(both[0], both[1]);
  }
  return {};
}

Result<Dict> MakeDict(Interp& interp, const CallArgs& args) {
  Dict dict;
  if (args.positional.size() > 1) return Err(Code::kInvalidArgument, "dict: at most one argument");
  if (!args.positional.empty()) TRY(AddPairs(interp, args.positional[0], dict));
  for (const auto& [name, value] : args.named) dict.Set(name, value);
  return dict;
}

Result<Value> DictFunction(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(Dict dict, MakeDict(interp, args));
  return interp.NewDict(std::move(dict));
}

Result<Value> NamespaceFunction(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(const Dict dict, MakeDict(interp, args));
  std::vector<std::pair<std::string, Value>> attributes;
  for (const auto& [key, item] : dict.entries()) {
    if (key.IsString()) attributes.emplace_back(key.AsString(), item);
  }
  return interp.NewNamespace(attributes);
}

Result<Value> RaiseException(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"message"}, 1));
  TRY_ASSIGN(const std::string message, interp.Str(*bound.At(0)));
  return Err(Code::kInvalidArgument, "{}", message);
}

Result<Value> StrftimeNow(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"format"}, 1));
  TRY_ASSIGN(const std::string_view format, bound.Text(0, ""));
  if (format.size() > 1000) return Err(Code::kInvalidArgument, "strftime_now: format too long");
  const std::time_t seconds = interp.now();
  std::tm broken{};
  gmtime_r(&seconds, &broken);
  // The passed clock is local time without a zone and without fractions of a second, so Python's
  // %Z and %z write nothing and %f zeros.
  std::string prepared;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'Z' || next == 'z' || next == 'f') {
      prepared += next == 'f' ? "000000" : "";
      ++i;
    } else if (next != '\0') {
      prepared += format.substr(i, 2);
      ++i;
    } else {
      prepared += format[i] == '%' ? "%%" : std::string(1, format[i]);
    }
  }
  std::string text(prepared.size() * 64 + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), prepared.c_str(), &broken));
  return interp.NewString(std::move(text));
}

class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view TypeName() const override { return "Cycler"; }
  std::optional<Value> Attribute(std::string_view name) override {
    if (name != "current") return std::nullopt;
    return items_[at_];
  }
  Value Next() {
    const Value& value = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return value;
  }
  void Reset() { at_ = 0; }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

Result<Value> CyclerNext(Interp&, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  return static_cast<Cycler&>(self.AsObject()).Next();
}

Result<Value> CyclerReset(Interp&, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  static_cast<Cycler&>(self.AsObject()).Reset();
  return Value::None();
}

constexpr Builtin kCyclerMethods[] = {{"next", CyclerNext}, {"reset", CyclerReset}};

Result<Value> CyclerFunction(Interp& interp, const Value&, const CallArgs& args) {
  if (args.positional.empty()) return Err(Code::kInvalidArgument, "cycler: nothing to cycle");
  size_t depth = 0;
  for (const Value& item : args.positional) depth = std::max(depth, item.depth());
  return interp.NewObject(std::make_shared<Cycler>(args.positional), depth);
}

// Called first it gives nothing, later its separator.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view TypeName() const override { return "Joiner"; }
  bool IsCallable() const override { return true; }
  Result<Value> Call(Interp&, const CallArgs& args) override {
    TRY(BoundArgs::Bind(args, {}));
    if (std::exchange(used_, true)) return separator_;
    return Value::String("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Result<Value> JoinerFunction(Interp& interp, const Value&, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"sep"}));
  const Value separator = bound.Or(0, Value::String(", "));
  return interp.NewObject(std::make_shared<Joiner>(separator), separator.depth());
}

constexpr Builtin kFunctions[] = {
    {"range", Range},
    {"dict", DictFunction},
    {"cycler", CyclerFunction},
    {"joiner", JoinerFunction},
    {"namespace", NamespaceFunction},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
};

}  // namespace

std::span<const Builtin> GlobalFunctions() { return kFunctions; }

std::span<const Builtin> CyclerMethods(const Value& self) {
  if (dynamic_cast<Cycler*>(&self.AsObject()) == nullptr) return {};
  return kCyclerMethods;
}

}  // namespace tandem::text::jinja

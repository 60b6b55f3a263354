// Filters over lists, dicts and other iterables.
#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"
#include "text/unicode.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

// Of an attribute path as map and sort take it: a.b.0, or a number, or absent for the item itself.
class Getter {
 public:
  static Result<Getter> Make(const Value* attribute) {
    Getter getter;
    if (attribute == nullptr || attribute->IsNone()) return getter;
    if (attribute->IsInt()) {
      getter.path_.push_back(*attribute);
      return getter;
    }
    if (!attribute->IsString()) {
      return Err(Code::kInvalidArgument, "an attribute must be a string or a number");
    }
    std::string_view rest = attribute->AsString();
    while (true) {
      const size_t dot = rest.find('.');
      const std::string_view part = rest.substr(0, dot);
      const bool number =
          !part.empty() && part.size() < 10 &&
          std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
      getter.path_.push_back(number ? Value::Int(std::atoi(std::string(part).c_str()))
                                    : Value::String(std::string(part)));
      if (dot == std::string_view::npos) return getter;
      rest.remove_prefix(dot + 1);
    }
  }

  Result<Value> Get(Interp& interp, Value item) const {
    for (const Value& part : path_) {
      TRY(interp.Step());
      TRY_ASSIGN(item, interp.Item(item, part));
    }
    return item;
  }

 private:
  std::vector<Value> path_;
};

Value IgnoreCase(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.IsString()) return value;
  return Value::String(ToLower(value.AsString()));
}

// Stable, with errors of the comparison passed on; bounded by the steps that comparing takes.
Status SortByKeys(Interp& interp, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  Status failed;
  const auto before = [&](const auto& a, const auto& b) {
    if (!failed) return false;
    const auto less = reverse ? interp.Less(b.first, a.first) : interp.Less(a.first, b.first);
    if (!less) failed = std::unexpected(less.error());
    return less.value_or(false);
  };
  // A merge sort by hand: std::sort may run wild when the order is not strict weak, as with NaN.
  std::vector<std::pair<Value, Value>> other(keyed.size());
  for (size_t width = 1; width < keyed.size(); width *= 2) {
    for (size_t low = 0; low < keyed.size(); low += 2 * width) {
      const size_t middle = std::min(low + width, keyed.size());
      const size_t high = std::min(low + 2 * width, keyed.size());
      size_t a = low;
      size_t b = middle;
      for (size_t to = low; to < high; ++to) {
        const bool take_b = a >= middle || (b < high && before(keyed[b], keyed[a]));
        other[to] = std::move(keyed[take_b ? b++ : a++]);
      }
    }
    keyed.swap(other);
  }
  return failed;
}

Result<std::vector<std::pair<Value, Value>>> Keyed(Interp& interp, const Value& self,
                                                   const Value* attribute, bool case_sensitive) {
  TRY_ASSIGN(const Getter getter, Getter::Make(attribute));
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    TRY_ASSIGN(const Value key, getter.Get(interp, item));
    keyed.emplace_back(IgnoreCase(key, case_sensitive), item);
  }
  return keyed;
}

bool Flag(Interp& interp, const BoundArgs& bound, size_t index) {
  return bound.Has(index) && interp.IsTrue(*bound.At(index));
}

Result<Value> Batch(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"linecount", "fill_with"}, 1));
  TRY_ASSIGN(const int64_t size, bound.Int(0, 1));
  if (size < 1 || size > 1000000) return Err(Code::kInvalidArgument, "batch: size {}", size);
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  std::vector<Value> batches;
  for (size_t at = 0; at < items.size(); at += static_cast<size_t>(size)) {
    const size_t end = std::min(items.size(), at + static_cast<size_t>(size));
    std::vector<Value> batch(items.begin() + static_cast<std::ptrdiff_t>(at),
                             items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.Has(1) && !bound.At(1)->IsNone())
      batch.resize(static_cast<size_t>(size), *bound.At(1));
    TRY_ASSIGN(Value list, interp.NewList(std::move(batch)));
    batches.push_back(std::move(list));
  }
  return interp.NewGenerator(std::move(batches));
}

Result<Value> SliceFilter(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"slices", "fill_with"}, 1));
  TRY_ASSIGN(const int64_t slices, bound.Int(0, 1));
  if (slices < 1 || slices > 1000000)
    return Err(Code::kInvalidArgument, "slice: {} slices", slices);
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  const auto count = static_cast<size_t>(slices);
  const size_t each = items.size() / count;
  const size_t longer = items.size() % count;
  std::vector<Value> out;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = each + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (bound.Has(1) && !bound.At(1)->IsNone() && i >= longer) part.push_back(*bound.At(1));
    TRY_ASSIGN(Value list, interp.NewList(std::move(part)));
    out.push_back(std::move(list));
  }
  return interp.NewGenerator(std::move(out));
}

Result<Value> DictSort(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"case_sensitive", "by", "reverse"}));
  TRY_ASSIGN(const std::string_view by, bound.Text(1, "key"));
  if (by != "key" && by != "value") {
    return Err(Code::kInvalidArgument, "dictsort: by must be 'key' or 'value'");
  }
  if (!self.IsDict()) return Err(Code::kInvalidArgument, "dictsort needs a dict");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, item] : self.AsDict().entries()) {
    TRY_ASSIGN(Value pair, interp.NewTuple({key, item}));
    keyed.emplace_back(IgnoreCase(by == "key" ? key : item, Flag(interp, bound, 0)),
                       std::move(pair));
  }
  TRY(SortByKeys(interp, keyed, Flag(interp, bound, 2)));
  std::vector<Value> out;
  for (auto& [key, pair] : keyed) out.push_back(std::move(pair));
  return interp.NewList(std::move(out));
}

Result<Value> First(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  return items.empty() ? Value::Undefined("the first item of an empty sequence") : items.front();
}

Result<Value> Last(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.IsObject()) {
    return Err(Code::kInvalidArgument, "'{}' object is not reversible", TypeName(self));
  }
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  return items.empty() ? Value::Undefined("the last item of an empty sequence") : items.back();
}

Result<Value> GroupBy(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound,
             BoundArgs::Bind(args, {"attribute", "default", "case_sensitive"}, 1));
  TRY_ASSIGN(auto keyed, Keyed(interp, self, bound.At(0), true));
  const bool case_sensitive = Flag(interp, bound, 2);
  for (auto& [key, item] : keyed) {
    if (key.IsUndefined() && bound.Has(1)) key = *bound.At(1);
    key = IgnoreCase(key, case_sensitive);
  }
  TRY(SortByKeys(interp, keyed, false));
  std::vector<Value> groups;
  for (size_t at = 0; at < keyed.size();) {
    std::vector<Value> members;
    const Value key = keyed[at].first;
    for (; at < keyed.size(); ++at) {
      TRY_ASSIGN(const bool same, interp.Same(keyed[at].first, key));
      if (!same) break;
      members.push_back(keyed[at].second);
    }
    TRY_ASSIGN(Value list, interp.NewList(std::move(members)));
    TRY_ASSIGN(Value group, interp.NewTuple({key, std::move(list)}));
    groups.push_back(std::move(group));
  }
  return interp.NewList(std::move(groups));
}

Result<Value> Items(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  std::vector<Value> pairs;
  if (self.IsDict()) {
    for (const auto& [key, item] : self.AsDict().entries()) {
      TRY_ASSIGN(Value pair, interp.NewTuple({key, item}));
      pairs.push_back(std::move(pair));
    }
  } else if (!self.IsUndefined()) {
    return Err(Code::kInvalidArgument, "items needs a mapping, not '{}'", TypeName(self));
  }
  return interp.NewGenerator(std::move(pairs));
}

Result<Value> Join(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"d", "attribute"}));
  TRY_ASSIGN(const Getter getter, Getter::Make(bound.At(1)));
  std::string separator;
  if (bound.Has(0)) {
    TRY_ASSIGN(separator, interp.Str(*bound.At(0)));
  }
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    TRY_ASSIGN(const Value item, getter.Get(interp, items[i]));
    TRY_ASSIGN(const std::string text, interp.Str(item));
    TRY(interp.Charge(separator.size()));
    if (i > 0) out += separator;
    out += text;
  }
  return interp.NewString(std::move(out));
}

Result<Value> Length(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const int64_t length, interp.LengthOf(self));
  return Value::Int(length);
}

Result<Value> List(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.kind() == Value::Kind::kList) return self;
  TRY_ASSIGN(std::vector<Value> items, interp.ItemsOf(self));
  return interp.NewList(std::move(items));
}

Result<std::vector<Value>> MapItems(Interp& interp, const Value& self, const CallArgs& args) {
  std::vector<Value> out;
  if (!interp.IsTrue(self)) return out;
  TRY_ASSIGN(std::vector<Value> items, interp.ItemsOf(self));
  if (args.positional.empty()) {
    TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"attribute", "default"}, 1));
    TRY_ASSIGN(const Getter getter, Getter::Make(bound.At(0)));
    for (Value& item : items) {
      TRY_ASSIGN(Value value, getter.Get(interp, std::move(item)));
      out.push_back(value.IsUndefined() && bound.Has(1) ? *bound.At(1) : std::move(value));
    }
    return out;
  }
  const Value& name = args.positional.front();
  const Builtin* filter = name.IsString() ? FindFilter(name.AsString()) : nullptr;
  if (filter == nullptr) return Err(Code::kInvalidArgument, "map: no such filter");
  const CallArgs rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
  for (const Value& item : items) {
    TRY(interp.Step());
    TRY_ASSIGN(Value value, filter->run(interp, item, rest));
    out.push_back(std::move(value));
  }
  return out;
}

Result<Value> Map(Interp& interp, const Value& self, const CallArgs& args) {
  return interp.NewGenerator(MapItems(interp, self, args));
}

Result<Value> Extreme(Interp& interp, const Value& self, const CallArgs& args, bool largest) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"case_sensitive", "attribute"}));
  TRY_ASSIGN(auto keyed, Keyed(interp, self, bound.At(1), Flag(interp, bound, 0)));
  if (keyed.empty()) return Value::Undefined("the extreme of an empty sequence");
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    TRY_ASSIGN(const bool better, largest ? interp.Less(keyed[best].first, keyed[i].first)
                                          : interp.Less(keyed[i].first, keyed[best].first));
    if (better) best = i;
  }
  return keyed[best].second;
}

Result<Value> Max(Interp& interp, const Value& self, const CallArgs& args) {
  return Extreme(interp, self, args, true);
}

Result<Value> Min(Interp& interp, const Value& self, const CallArgs& args) {
  return Extreme(interp, self, args, false);
}

Result<Value> Reverse(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.IsString()) {
    return interp.Slice(self, Value::None(), Value::None(), Value::Int(-1));
  }
  TRY_ASSIGN(std::vector<Value> items, interp.ItemsOf(self));
  std::reverse(items.begin(), items.end());
  return self.IsObject() ? interp.NewList(std::move(items)) : interp.NewGenerator(std::move(items));
}

// select, reject, selectattr, rejectattr: with_attribute takes the first argument as attribute.
Result<std::vector<Value>> Choose(Interp& interp, const Value& self, const CallArgs& args,
                                  bool keep, bool with_attribute) {
  std::vector<Value> out;
  if (!interp.IsTrue(self)) return out;
  const size_t skip = with_attribute ? 1 : 0;
  if (args.positional.size() < skip) {
    return Err(Code::kInvalidArgument, "the name of the attribute is missing");
  }
  TRY_ASSIGN(const Getter getter,
             Getter::Make(with_attribute ? &args.positional.front() : nullptr));
  const Builtin* test = nullptr;
  CallArgs rest;
  if (args.positional.size() > skip) {
    const Value& name = args.positional[skip];
    test = name.IsString() ? FindTest(name.AsString()) : nullptr;
    if (test == nullptr) return Err(Code::kInvalidArgument, "no such test");
    rest = {
        {args.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1, args.positional.end()},
        args.named};
  }
  TRY_ASSIGN(std::vector<Value> items, interp.ItemsOf(self));
  for (Value& item : items) {
    TRY(interp.Step());
    TRY_ASSIGN(Value value, getter.Get(interp, item));
    if (test != nullptr) {
      TRY_ASSIGN(value, test->run(interp, value, rest));
    }
    if (interp.IsTrue(value) == keep) out.push_back(std::move(item));
  }
  return out;
}

Result<Value> Select(Interp& interp, const Value& self, const CallArgs& args) {
  return interp.NewGenerator(Choose(interp, self, args, true, false));
}
Result<Value> Reject(Interp& interp, const Value& self, const CallArgs& args) {
  return interp.NewGenerator(Choose(interp, self, args, false, false));
}
Result<Value> SelectAttr(Interp& interp, const Value& self, const CallArgs& args) {
  return interp.NewGenerator(Choose(interp, self, args, true, true));
}
Result<Value> RejectAttr(Interp& interp, const Value& self, const CallArgs& args) {
  return interp.NewGenerator(Choose(interp, self, args, false, true));
}

Result<Value> Sort(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound,
             BoundArgs::Bind(args, {"reverse", "case_sensitive", "attribute"}));
  TRY_ASSIGN(auto keyed, Keyed(interp, self, bound.At(2), Flag(interp, bound, 1)));
  TRY(SortByKeys(interp, keyed, Flag(interp, bound, 0)));
  std::vector<Value> out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return interp.NewList(std::move(out));
}

Result<Value> Sum(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"attribute", "start"}));
  TRY_ASSIGN(const Getter getter, Getter::Make(bound.At(0)));
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(self));
  Value total = bound.Or(1, Value::Int(0));
  for (const Value& item : items) {
    TRY_ASSIGN(const Value value, getter.Get(interp, item));
    TRY_ASSIGN(total, interp.Arithmetic(Op::kAdd, total, value));
  }
  return total;
}

Result<Value> Unique(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"case_sensitive", "attribute"}));
  TRY_ASSIGN(auto keyed, Keyed(interp, self, bound.At(1), Flag(interp, bound, 0)));
  Dict seen;
  std::vector<Value> out;
  for (auto& [key, item] : keyed) {
    TRY(interp.Step(1 + (key.IsString() ? 0 : seen.size())));
    if (seen.Find(key) != nullptr) continue;
    seen.Set(std::move(key), Value::None());
    out.push_back(std::move(item));
  }
  return interp.NewGenerator(std::move(out));
}

constexpr Builtin kFilters[] = {
    {"batch", Batch},       {"count", Length},    {"dictsort", DictSort},
    {"first", First},       {"groupby", GroupBy}, {"items", Items},
    {"join", Join},         {"last", Last},       {"length", Length},
    {"list", List},         {"map", Map},         {"max", Max},
    {"min", Min},           {"reject", Reject},   {"rejectattr", RejectAttr},
    {"reverse", Reverse},   {"select", Select},   {"selectattr", SelectAttr},
    {"slice", SliceFilter}, {"sort", Sort},       {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

std::span<const Builtin> SequenceFilters() { return kFilters; }

}  // namespace tandem::text::jinja

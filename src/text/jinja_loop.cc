#include "text/jinja_loop.h"

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_interp.h"

namespace tandem::text::jinja {

std::optional<Value> LoopObject::Attribute(std::string_view name) {
  const auto index = static_cast<int64_t>(index_);
  const auto count = static_cast<int64_t>(items_.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(count - index);
  if (name == "revindex0") return Value::Int(count - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == count);
  if (name == "length") return Value::Int(count);
  if (name == "depth") return Value::Int(depth_ + 1);
  if (name == "depth0") return Value::Int(depth_);
  if (name == "previtem") return index == 0 ? Value::Undefined("previtem") : items_[index_ - 1];
  if (name == "nextitem") {
    return index + 1 == count ? Value::Undefined("nextitem") : items_[index_ + 1];
  }
  return std::nullopt;
}

Result<Value> LoopObject::Call(Interp& interp, const CallArgs& args) {
  if (recursive_ == nullptr) {
    return Err(Code::kInvalidArgument, "the loop is not marked as recursive");
  }
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"iterable"}, 1));
  TRY_ASSIGN(std::vector<Value> items, interp.ItemsOf(*bound.At(0)));
  TRY_ASSIGN(std::string text, interp.RunLoop(*recursive_, scope_, std::move(items), depth_ + 1));
  return interp.NewString(std::move(text));
}

Result<Value> LoopObject::Cycle(const CallArgs& args) const {
  if (args.positional.empty()) return Err(Code::kInvalidArgument, "loop.cycle: nothing to cycle");
  return args.positional[index_ % args.positional.size()];
}

bool LoopObject::Changed(const CallArgs& args) {
  const bool same =
      has_last_ &&
      std::equal(last_.begin(), last_.end(), args.positional.begin(), args.positional.end(),
                 [](const Value& a, const Value& b) { return Equal(a, b); });
  has_last_ = true;
  last_ = args.positional;
  return !same;
}

}  // namespace tandem::text::jinja

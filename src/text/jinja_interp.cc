#include "text/jinja_interp.h"

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text {

Result<Value> Object::Call(jinja::Interp&, const jinja::CallArgs&) {
  return Err(Code::kInvalidArgument, "'{}' object is not callable", TypeName());
}

std::optional<Value> Object::Attribute(std::string_view) { return std::nullopt; }

Result<std::vector<Value>> Object::TakeItems() {
  return Err(Code::kInvalidArgument, "'{}' object is not iterable", TypeName());
}

namespace jinja {
namespace {

// Deeper values are refused: printing, comparing and freeing them recurses.
constexpr size_t kMaxValueDepth = 200;

}  // namespace

std::optional<Value> Namespace::Attribute(std::string_view name) {
  const Value* found = attributes_.Find(name);
  if (found == nullptr) return std::nullopt;
  return *found;
}

void Namespace::Set(std::string_view name, Value value) {
  attributes_.Set(std::string(name), std::move(value));
}

Interp::Interp(const Program& program, const RenderLimits& limits, int64_t now)
    : program_(program), limits_(limits), now_(now), loop_id_(IdOf("loop")) {}

Interp::~Interp() {
  for (const auto& space : namespaces_) space->Clear();
}

NameId Interp::IdOf(std::string_view name) const {
  const auto found = std::find(program_.names.begin(), program_.names.end(), name);
  return static_cast<NameId>(found - program_.names.begin());
}

Result<std::string> Interp::Run(const std::vector<std::pair<std::string_view, Value>>& variables) {
  globals_.variables.reserve(GlobalFunctions().size() + variables.size());
  for (const Builtin& function : GlobalFunctions()) {
    const NameId id = IdOf(function.name);
    if (id >= program_.names.size()) continue;
    SetVariable(&globals_, id,
                Value::FromObject(std::make_shared<Function>(function.run, Value())));
  }
  for (const auto& [name, value] : variables) {
    const NameId id = IdOf(name);
    if (id < program_.names.size()) SetVariable(&globals_, id, value);
  }
  Scope top(&globals_);
  const auto flow = Exec(program_.body, &top);
  if (!flow) {
    Error error = flow.error();
    error.message = fmt::format("chat template, line {}: {}", line_, error.message);
    return std::unexpected(std::move(error));
  }
  return std::move(output_);
}

Status Interp::Step(uint64_t count) {
  steps_ += count;
  if (steps_ <= limits_.steps) return {};
  return Err(Code::kResourceExhausted, "more than {} steps", limits_.steps);
}

Status Interp::CheckDepth() const {
  if (depth_ <= limits_.depth) return {};
  return Err(Code::kResourceExhausted, "more than {} nested evaluations", limits_.depth);
}

Status Interp::Charge(size_t bytes) {
  if (bytes <= memory_left()) {
    memory_ += bytes;
    return {};
  }
  memory_ = limits_.memory_bytes;
  return Err(Code::kResourceExhausted, "more than {} bytes of values", limits_.memory_bytes);
}

Result<Value> Interp::NewString(std::string text, bool safe) {
  TRY(Charge(text.size() + sizeof(Value)));
  return safe ? Value::SafeString(std::move(text)) : Value::String(std::move(text));
}

namespace {
Result<Value> CheckNesting(Value value) {
  if (value.depth() <= kMaxValueDepth) return value;
  return Err(Code::kResourceExhausted, "values nested more than {} deep", kMaxValueDepth);
}
}  // namespace

Result<Value> Interp::NewList(std::vector<Value> items) {
  TRY(Charge((items.size() + 2) * sizeof(Value)));
  return CheckNesting(Value::List(std::move(items)));
}

Result<Value> Interp::NewTuple(std::vector<Value> items) {
  TRY(Charge((items.size() + 2) * sizeof(Value)));
  return CheckNesting(Value::Tuple(std::move(items)));
}

Result<Value> Interp::NewDict(Dict dict) {
  TRY(Charge((4 * dict.size() + 2) * sizeof(Value)));
  return CheckNesting(Value::FromDict(std::move(dict)));
}

Result<Value> Interp::NewObject(std::shared_ptr<Object> object, size_t depth) {
  TRY(Charge(4 * sizeof(Value)));
  return CheckNesting(Value::FromObject(std::move(object), depth));
}

Result<Value> Interp::NewGenerator(Result<std::vector<Value>> items) {
  size_t depth = 0;
  if (items) {
    TRY(Charge((items->size() + 2) * sizeof(Value)));
    for (const Value& item : *items) depth = std::max(depth, item.depth());
  } else if (items.error().code == Code::kResourceExhausted) {
    return std::unexpected(items.error());
  }
  return NewObject(std::make_shared<Generator>(std::move(items)), depth);
}

Result<Value> Interp::NewNamespace(const std::vector<std::pair<std::string, Value>>& attributes) {
  auto space = std::make_shared<Namespace>();
  for (const auto& [name, value] : attributes) {
    TRY(Charge(name.size() + 4 * sizeof(Value)));
    space->Set(name, value);
  }
  namespaces_.push_back(space);
  return NewObject(std::move(space), 0);
}

bool Interp::IsTrue(const Value& value) const {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      return value.AsInt() != 0;
    case Value::Kind::kFloat:
      return value.AsDouble() != 0;
    case Value::Kind::kString:
      return !value.AsString().empty();
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return !value.Items().empty();
    case Value::Kind::kDict:
      return value.AsDict().size() != 0;
    case Value::Kind::kObject:
      return true;
  }
  return false;
}

Result<std::string> Interp::Str(const Value& value) {
  std::string out;
  AppendStr(value, memory_left(), out);
  TRY(Charge(out.size()));
  return out;
}

Result<std::vector<Value>> Interp::ItemsOf(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return std::vector<Value>();
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      // A copy of references that lives as long as the loop over it: time counts, not memory.
      TRY(Step(value.Items().size() / 16));
      return value.Items();
    case Value::Kind::kDict: {
      std::vector<Value> keys;
      TRY(Step(value.AsDict().size() / 16));
      for (const auto& [key, item] : value.AsDict().entries()) keys.push_back(key);
      return keys;
    }
    case Value::Kind::kString: {
      std::vector<Value> characters;
      std::string_view rest = value.AsString();
      TRY(Charge(rest.size() * 3 * sizeof(Value)));
      while (!rest.empty()) {
        const size_t bytes = DecodeUtf8(rest).bytes;
        characters.push_back(Value::String(std::string(rest.substr(0, bytes))));
        rest.remove_prefix(bytes);
      }
      return characters;
    }
    case Value::Kind::kObject:
      return value.AsObject().TakeItems();
    default:
      break;
  }
  return Err(Code::kInvalidArgument, "'{}' object is not iterable", TypeName(value));
}

Result<int64_t> Interp::LengthOf(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kString:
      return static_cast<int64_t>(CountCodePoints(value.AsString()));
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return static_cast<int64_t>(value.Items().size());
    case Value::Kind::kDict:
      return static_cast<int64_t>(value.AsDict().size());
    default:
      return Err(Code::kInvalidArgument, "object of type '{}' has no length", TypeName(value));
  }
}

Result<Value> Interp::Attribute(const Value& value, std::string_view name) {
  if (value.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", value.UndefinedName());
  }
  if (const Builtin* method = FindMethod(value, name)) {
    if (IsForbidden(*method)) return Value::Undefined(std::string(name));
    return NewObject(std::make_shared<Function>(method->run, value), value.depth());
  }
  if (value.IsDict()) {
    const Value* found = value.AsDict().Find(name);
    if (found != nullptr) return *found;
  }
  if (value.IsObject()) {
    if (auto found = value.AsObject().Attribute(name)) return std::move(*found);
  }
  return Value::Undefined(std::string(name));
}

Result<Value> Interp::Call(const Value& callee, const CallArgs& args) {
  TRY(Step());
  if (callee.IsUndefined()) {
    return Err(Code::kInvalidArgument, "'{}' is undefined", callee.UndefinedName());
  }
  if (!callee.IsObject()) {
    return Err(Code::kInvalidArgument, "'{}' object is not callable", TypeName(callee));
  }
  return callee.AsObject().Call(*this, args);
}

}  // namespace jinja
}  // namespace tandem::text

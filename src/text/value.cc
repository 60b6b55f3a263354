#include "text/value.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tandem::text {
namespace {

// Up to this many entries a plain search is as fast as an index.
constexpr size_t kIndexFrom = 9;

uint16_t DepthAbove(size_t depth) {
  return static_cast<uint16_t>(std::min<size_t>(depth + 1, 65535));
}

size_t DepthOf(const std::vector<Value>& items) {
  size_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

}  // namespace

// Sorted rather than hashed, so that no choice of keys makes it slow. The views point into strings
// that the entries keep alive.
struct Dict::Index {
  std::map<std::string_view, size_t> at;
};

Value Value::Undefined(std::string name) {
  Value value;
  value.data_ = std::make_shared<const std::string>(std::move(name));
  return value;
}

Value Value::None() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}

Value Value::Bool(bool b) {
  Value value;
  value.kind_ = Kind::kBool;
  value.data_ = b;
  return value;
}

Value Value::Int(int64_t i) {
  Value value;
  value.kind_ = Kind::kInt;
  value.data_ = i;
  return value;
}

Value Value::Float(double d) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.data_ = d;
  return value;
}

Value Value::String(std::string text) {
  Value value;
  value.kind_ = Kind::kString;
  value.data_ = std::make_shared<const std::string>(std::move(text));
  return value;
}

Value Value::SafeString(std::string text) {
  Value value = String(std::move(text));
  value.safe_ = true;
  return value;
}

Value Value::List(std::vector<Value> items) {
  Value value;
  value.kind_ = Kind::kList;
  value.depth_ = DepthAbove(DepthOf(items));
  value.data_ = std::make_shared<const std::vector<Value>>(std::move(items));
  return value;
}

Value Value::Tuple(std::vector<Value> items) {
  Value value = List(std::move(items));
  value.kind_ = Kind::kTuple;
  return value;
}

Value Value::FromDict(Dict dict) {
  Value value;
  value.kind_ = Kind::kDict;
  size_t depth = 0;
  for (const auto& [key, item] : dict.entries()) {
    depth = std::max({depth, key.depth(), item.depth()});
  }
  value.depth_ = DepthAbove(depth);
  value.data_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

Value Value::FromObject(std::shared_ptr<Object> object, size_t depth) {
  Value value;
  value.kind_ = Kind::kObject;
  value.depth_ = DepthAbove(depth);
  value.data_ = std::move(object);
  return value;
}

bool Value::AsBool() const {
  CHECK(IsBool());
  return std::get<bool>(data_);
}

int64_t Value::AsInt() const {
  CHECK(IsInt() || IsBool());
  return IsBool() ? int64_t{std::get<bool>(data_)} : std::get<int64_t>(data_);
}

double Value::AsDouble() const {
  CHECK(IsNumber());
  return IsFloat() ? std::get<double>(data_) : static_cast<double>(AsInt());
}

const std::string& Value::AsString() const {
  CHECK(IsString());
  return *std::get<Text>(data_);
}

const std::vector<Value>& Value::Items() const {
  CHECK(IsSequence());
  return *std::get<Sequence>(data_);
}

const Dict& Value::AsDict() const {
  CHECK(IsDict());
  return *std::get<Mapping>(data_);
}

Object& Value::AsObject() const { return *ObjectPtr(); }

const std::shared_ptr<Object>& Value::ObjectPtr() const {
  CHECK(IsObject());
  return std::get<std::shared_ptr<Object>>(data_);
}

std::string_view Value::UndefinedName() const {
  const Text* name = std::get_if<Text>(&data_);
  return IsUndefined() && name != nullptr ? std::string_view(**name) : std::string_view();
}

bool Value::SameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (IsUndefined()) return true;
  if (IsString()) return AsString() == other.AsString();
  return data_ == other.data_;
}

Dict::Dict() = default;
Dict::~Dict() = default;
Dict::Dict(Dict&&) noexcept = default;
Dict& Dict::operator=(Dict&&) noexcept = default;

Dict::Dict(const Dict& other)
    : entries_(other.entries_),
      index_(other.index_ ? std::make_unique<Index>(*other.index_) : nullptr) {}

Dict& Dict::operator=(const Dict& other) {
  if (this != &other) *this = Dict(other);
  return *this;
}

void Dict::Set(Value key, Value value) {
  if (const Value* found = Find(key)) {
    const_cast<Value&>(*found) = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (!index_ && entries_.size() >= kIndexFrom) {
    index_ = std::make_unique<Index>();
    for (size_t i = 0; i + 1 < entries_.size(); ++i) {
      if (entries_[i].first.IsString()) index_->at.emplace(entries_[i].first.AsString(), i);
    }
  }
  const Value& stored = entries_.back().first;
  if (index_ && stored.IsString()) index_->at.emplace(stored.AsString(), entries_.size() - 1);
}

const Value* Dict::Find(const Value& key) const {
  if (key.IsString()) return Find(std::string_view(key.AsString()));
  for (const Entry& entry : entries_) {
    if (!entry.first.IsString() && Equal(entry.first, key)) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (index_) {
    const auto found = index_->at.find(key);
    return found == index_->at.end() ? nullptr : &entries_[found->second].second;
  }
  for (const Entry& entry : entries_) {
    if (entry.first.IsString() && entry.first.AsString() == key) return &entry.second;
  }
  return nullptr;
}

bool Equal(const Value& a, const Value& b, uint64_t& steps) {
  if (steps == 0) return false;
  --steps;
  if (a.IsNumber() && b.IsNumber()) {
    if (!a.IsFloat() && !b.IsFloat()) return a.AsInt() == b.AsInt();
    return a.AsDouble() == b.AsDouble();
  }
  if (a.kind() != b.kind()) return false;
  if (a.IsSequence()) {
    return std::equal(a.Items().begin(), a.Items().end(), b.Items().begin(), b.Items().end(),
                      [&](const Value& x, const Value& y) { return Equal(x, y, steps); });
  }
  if (a.IsDict()) {
    if (a.AsDict().size() != b.AsDict().size()) return false;
    return std::all_of(a.AsDict().entries().begin(), a.AsDict().entries().end(),
                       [&](const Dict::Entry& entry) {
                         const Value* other = b.AsDict().Find(entry.first);
                         return other != nullptr && Equal(entry.second, *other, steps);
                       });
  }
  return a.SameAs(b);
}

bool Equal(const Value& a, const Value& b) {
  uint64_t steps = uint64_t{1} << 24;
  return Equal(a, b, steps);
}

}  // namespace tandem::text

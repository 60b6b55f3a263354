// The values that a chat template computes with: Python's, as far as Jinja shows them. Immutable
// and cheap to copy, so a conversation built once may be rendered from several threads.
#ifndef TANDEM_TEXT_VALUE_H_
#define TANDEM_TEXT_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::text {

class Dict;
class Object;

class Value {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kObject,  // made by the interpreter only: macros, bound methods, namespaces, loops
  };

  Value() = default;                         // undefined
  static Value Undefined(std::string name);  // what an error about it calls it
  static Value None();
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value String(std::string text);      // valid UTF-8
  static Value SafeString(std::string text);  // as made by the filter `safe`
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value FromDict(Dict dict);
  // `depth`: nesting of the values that the object holds.
  static Value FromObject(std::shared_ptr<Object> object, size_t depth = 0);

  Kind kind() const { return kind_; }
  bool IsUndefined() const { return kind_ == Kind::kUndefined; }
  bool IsNone() const { return kind_ == Kind::kNone; }
  bool IsBool() const { return kind_ == Kind::kBool; }
  bool IsInt() const { return kind_ == Kind::kInt; }
  bool IsFloat() const { return kind_ == Kind::kFloat; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsSafe() const { return safe_; }
  bool IsSequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool IsDict() const { return kind_ == Kind::kDict; }
  bool IsObject() const { return kind_ == Kind::kObject; }
  // bool, int or float: what Python's arithmetic takes.
  bool IsNumber() const { return IsBool() || IsInt() || IsFloat(); }

  // Each is for its own kind only (CHECKed).
  bool AsBool() const;
  int64_t AsInt() const;    // bool counts as 0 or 1
  double AsDouble() const;  // any number
  const std::string& AsString() const;
  const std::vector<Value>& Items() const;  // list or tuple
  const Dict& AsDict() const;
  Object& AsObject() const;
  const std::shared_ptr<Object>& ObjectPtr() const;
  std::string_view UndefinedName() const;  // empty where not known

  // Levels of lists, dicts and objects inside this one; 0 for a scalar. Whoever builds values from
  // untrusted input bounds it, because walking and freeing them recurses.
  size_t depth() const { return depth_; }
  // The very same value: equal scalars or one shared object.
  bool SameAs(const Value& other) const;

 private:
  // shared_ptr: values share their parts freely (slices, loops, variables) and nobody owns them
  // alone; the parts never change, so sharing is not seen.
  using Text = std::shared_ptr<const std::string>;
  using Sequence = std::shared_ptr<const std::vector<Value>>;
  using Mapping = std::shared_ptr<const Dict>;

  Kind kind_ = Kind::kUndefined;
  bool safe_ = false;
  uint16_t depth_ = 0;
  std::variant<std::monostate, bool, int64_t, double, Text, Sequence, Mapping,
               std::shared_ptr<Object>>
      data_;
};

// Keys in order of first insertion, as in Python. Keys of any hashable kind; strings in practice.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  Dict();
  ~Dict();
  Dict(const Dict& other);
  Dict(Dict&& other) noexcept;
  Dict& operator=(const Dict& other);
  Dict& operator=(Dict&& other) noexcept;

  // Replaces the value of a key that is there, in its place.
  void Set(Value key, Value value);
  void Set(std::string key, Value value) { Set(Value::String(std::move(key)), std::move(value)); }
  const Value* Find(const Value& key) const;  // nullptr where absent
  const Value* Find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

 private:
  struct Index;
  std::vector<Entry> entries_;
  std::unique_ptr<Index> index_;  // string keys of a large dict
};

// Python's ==, including 1 == 1.0 == True and lists and dicts by content. Each comparison takes one
// from `steps`; at zero everything is unequal (values that share parts can be exponentially large).
bool Equal(const Value& a, const Value& b, uint64_t& steps);
bool Equal(const Value& a, const Value& b);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_VALUE_H_

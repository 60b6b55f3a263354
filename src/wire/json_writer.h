// Appends JSON to a string. The writer puts commas; the caller keeps begin and end balanced and
// gives each member of an object a key. Cheap: no allocation but the string's own growth.
#ifndef TANDEM_WIRE_JSON_WRITER_H_
#define TANDEM_WIRE_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::wire {

class Json;

// `"text"` with escapes. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);
// Shortest form that reads back to the same value; always a number that JSON allows (NaN and
// infinities, which JSON lacks, become null).
void AppendJsonNumber(std::string& out, double value);
void AppendJsonNumber(std::string& out, float value);
void AppendJsonNumber(std::string& out, int64_t value);
void AppendJsonNumber(std::string& out, uint64_t value);
void AppendJson(std::string& out, const Json& value);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Shut('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Shut(']'); }
  // `key` must need no escapes: it is a name that the program chose.
  JsonWriter& Key(std::string_view key);

  JsonWriter& String(std::string_view v);
  template <std::signed_integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& Int(T v) {
    Separate();
    AppendJsonNumber(out_, int64_t{v});
    return *this;
  }
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& Int(T v) {
    Separate();
    AppendJsonNumber(out_, uint64_t{v});
    return *this;
  }
  JsonWriter& Double(double v);
  JsonWriter& Float(float v);
  JsonWriter& Bool(bool v) { return Raw(v ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  JsonWriter& Value(const Json& v);
  // Text that is JSON already.
  JsonWriter& Raw(std::string_view json);

 private:
  JsonWriter& Open(char c);
  JsonWriter& Shut(char c);
  void Separate() {
    if (need_comma_) out_.push_back(',');
    need_comma_ = true;
  }

  std::string& out_;
  bool need_comma_ = false;
};

}  // namespace tandem::wire

#endif  // TANDEM_WIRE_JSON_WRITER_H_

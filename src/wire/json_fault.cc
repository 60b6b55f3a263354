// A strict reader of RFC 8259 that builds nothing: it finds where a text stops being JSON.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "wire/json.h"
#include "wire/utf8.h"

namespace tandem::wire {
namespace {

class FaultFinder {
 public:
  FaultFinder(std::string_view text, int max_depth)
      : text_(text), max_depth_(static_cast<size_t>(max_depth)) {}

  std::optional<JsonFault> Find() {
    SkipSpace();
    if (AtEnd()) return Fault("an empty text");
    // One entry per open array or object, holding its closing character.
    std::vector<char> open;
    while (true) {
      if (!Value(open)) return fault_;
      if (!CloseFinished(open)) return fault_;
      if (open.empty()) break;
    }
    SkipSpace();
    if (!AtEnd()) return Fault("something after the end of the value");
    return std::nullopt;
  }

 private:
  bool AtEnd() const { return pos_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[pos_]; }
  bool Fault(std::string_view what, size_t at) {
    fault_ = JsonFault{at, what};
    return false;
  }
  std::optional<JsonFault> Fault(std::string_view what) { return JsonFault{pos_, what}; }
  bool Bad(std::string_view what) {
    return Fault(AtEnd() ? "the text ends too early" : what, pos_);
  }

  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r'))
      ++pos_;
  }

  // Reads one scalar, or opens containers up to the first scalar or empty container.
  bool Value(std::vector<char>& open) {
    while (true) {
      SkipSpace();
      const char c = Peek();
      if (c != '{' && c != '[') return Scalar();
      if (open.size() >= max_depth_) return Fault("values nested too deeply", pos_);
      ++pos_;
      SkipSpace();
      const char shut = c == '{' ? '}' : ']';
      if (Peek() == shut) {
        ++pos_;
        return true;
      }
      open.push_back(shut);
      if (c == '{' && !Name()) return false;
    }
  }

  // After a value: closes what ends here; stops before the next value of an open container.
  bool CloseFinished(std::vector<char>& open) {
    while (!open.empty()) {
      SkipSpace();
      if (Peek() == open.back()) {
        ++pos_;
        open.pop_back();
        continue;
      }
      if (Peek() != ',') return Bad("expected a comma or the end of the array or object");
      ++pos_;
      SkipSpace();
      return open.back() == ']' || Name();
    }
    return true;
  }

  bool Name() {
    SkipSpace();
    if (Peek() != '"') return Bad("expected a name in double quotes");
    if (!String()) return false;
    SkipSpace();
    if (Peek() != ':') return Bad("expected a colon after the name");
    ++pos_;
    return true;
  }

  bool Scalar() {
    const char c = Peek();
    if (c == '"') return String();
    if (c == 't') return Word("true");
    if (c == 'f') return Word("false");
    if (c == 'n') return Word("null");
    if (c == '-' || (c >= '0' && c <= '9')) return Number();
    return Bad("expected a value");
  }

  bool Word(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return Bad("expected true, false or null");
    pos_ += word.size();
    return true;
  }

  bool Digits() {
    const size_t start = pos_;
    while (!AtEnd() && Peek() >= '0' && Peek() <= '9') ++pos_;
    return pos_ > start;
  }

  bool Number() {
    const size_t start = pos_;
    if (Peek() == '-') ++pos_;
    if (Peek() == '0')
      ++pos_;
    else if (!Digits())
      return Bad("expected a digit");
    if (Peek() >= '0' && Peek() <= '9') return Bad("a number with a leading zero");
    bool integer = true;
    if (Peek() == '.') {
      integer = false;
      ++pos_;
      if (!Digits()) return Bad("expected a digit after the point");
    }
    if (Peek() == 'e' || Peek() == 'E') {
      integer = false;
      ++pos_;
      if (Peek() == '+' || Peek() == '-') ++pos_;
      if (!Digits()) return Bad("expected a digit in the exponent");
    }
    return integer ? FitsInteger(start) : FitsDouble(start);
  }

  bool FitsInteger(size_t start) {
    const char* first = text_.data() + start;
    const char* last = text_.data() + pos_;
    int64_t i = 0;
    uint64_t u = 0;
    if (std::from_chars(first, last, i).ec == std::errc()) return true;
    if (std::from_chars(first, last, u).ec == std::errc()) return true;
    return Fault("an integer beyond 64 bits", start);
  }

  bool FitsDouble(size_t start) {
    const std::string number(text_.substr(start, pos_ - start));
    if (!std::isfinite(std::strtod(number.c_str(), nullptr)))
      return Fault("a number too large", start);
    return true;
  }

  bool String() {
    ++pos_;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '"') {
        ++pos_;
        return true;
      }
      if (static_cast<uint8_t>(c) < 0x20) return Bad("a control character in a string");
      if (c == '\\') {
        if (!Escape()) return false;
        continue;
      }
      const size_t length = Utf8Length(text_.substr(pos_));
      if (length == 0) return Bad("bytes that are not UTF-8");
      pos_ += length;
    }
    return Bad("");
  }

  bool Escape() {
    const size_t start = pos_++;
    if (Peek() == 'u') {
      uint32_t unit = 0;
      if (!Hex4(unit)) return Bad("expected four hexadecimal digits");
      if (unit >= 0xDC00 && unit <= 0xDFFF) return Fault("half of a surrogate pair", start);
      if (unit < 0xD800 || unit > 0xDBFF) return true;
      uint32_t low = 0;
      if (text_.substr(pos_, 2) != "\\u") return Fault("half of a surrogate pair", start);
      ++pos_;
      if (!Hex4(low) || low < 0xDC00 || low > 0xDFFF)
        return Fault("half of a surrogate pair", start);
      return true;
    }
    if (std::string_view("\"\\/bfnrt").find(Peek()) == std::string_view::npos || AtEnd())
      return Bad("an unknown escape");
    ++pos_;
    return true;
  }

  // pos_ is at the 'u'.
  bool Hex4(uint32_t& unit) {
    ++pos_;
    if (text_.size() - pos_ < 4) return false;
    const char* first = text_.data() + pos_;
    const auto read = std::from_chars(first, first + 4, unit, 16);
    if (read.ec != std::errc() || read.ptr != first + 4) return false;
    pos_ += 4;
    return true;
  }

  std::string_view text_;
  size_t max_depth_;
  size_t pos_ = 0;
  std::optional<JsonFault> fault_;
};

}  // namespace

std::optional<JsonFault> FindJsonFault(std::string_view text, int max_depth) {
  return FaultFinder(text, max_depth).Find();
}

}  // namespace tandem::wire

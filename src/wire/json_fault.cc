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
    while (true) {
      if (!Value()) return fault_;
      if (!CloseFinished()) return fault_;
      if (open_.empty()) break;
    }
    SkipSpace();
    if (!AtEnd()) return Fault("something after the end of the value");
    return std::nullopt;
  }

 private:
  bool AtEnd() const { return pos_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[pos_]; }
  bool Fault(std::string_view what, size_t at) {
    fault_ = JsonFault{.offset = at, .what = what};
    return false;
  }
  std::optional<JsonFault> Fault(std::string_view what) {
    return JsonFault{.offset = pos_, .what = what};
  }
  bool Bad(std::string_view what) {
    return Fault(AtEnd() ? "the text ends too early" : what, pos_);
  }

  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r'))
      ++pos_;
  }

  // Reads one scalar, or opens containers up to the first scalar or empty container.
  bool Value() {
    while (true) {
      SkipSpace();
      const char c = Peek();
      if (c != '{' && c != '[') return Scalar();
      if (open_.size() >= max_depth_) return Fault("values nested too deeply", pos_);
      ++pos_;
      SkipSpace();
      const char shut = c == '{' ? '}' : ']';
      if (Peek() == shut) {
        ++pos_;
        return true;
      }
      open_.push_back({.shut = shut, .name = {}});
      if (c == '{' && !Name()) return false;
    }
  }

  // After a value: closes what ends here; stops before the next value of an open container.
  bool CloseFinished() {
    while (!open_.empty()) {
      SkipSpace();
      if (Peek() == open_.back().shut) {
        ++pos_;
        open_.pop_back();
        continue;
      }
      if (Peek() != ',') return Bad("expected a comma or the end of the array or object");
      ++pos_;
      SkipSpace();
      ++open_.back().index;
      return open_.back().shut == ']' || Name();
    }
    return true;
  }

  bool Name() {
    SkipSpace();
    if (Peek() != '"') return Bad("expected a name in double quotes");
    const size_t start = pos_ + 1;
    if (!String()) return false;
    open_.back().name = text_.substr(start, pos_ - 1 - start);
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
    fault_ = JsonFault{start, "an integer beyond 64 bits", Path()};
    return false;
  }

  // Of the value that is being read, bounded for messages.
  std::string Path() const {
    constexpr size_t kShown = 200;
    std::string path;
    for (const Level& level : open_) {
      if (level.shut == ']') {
        path += '[' + std::to_string(level.index) + ']';
      } else {
        if (!path.empty()) path += '.';
        path += level.name;
      }
      if (path.size() > kShown) return "a nested value";
    }
    return path;
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

  // An open array or object: its closing character, and where in it the reader stands.
  struct Level {
    char shut;
    std::string_view name;
    size_t index = 0;
  };

  std::string_view text_;
  size_t max_depth_;
  size_t pos_ = 0;
  std::vector<Level> open_;
  std::optional<JsonFault> fault_;
};

}  // namespace

std::optional<JsonFault> FindJsonFault(std::string_view text, int max_depth) {
  return FaultFinder(text, max_depth).Find();
}

}  // namespace tandem::wire

#include <limits>
#include <string>
#include <utility>

#include "text/regex_ast.h"
#include "text/regex_class.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr int kMaxDepth = 40;
constexpr uint32_t kMaxRepeat = 1000;

using Kind = RegexAst::Kind;
using Mode = RegexNode::Mode;

RegexAst SetNode(CharRanges set) {
  RegexAst node;
  node.kind = Kind::kSet;
  node.set = std::move(set);
  return node;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<RegexAst> Parse() {
    TRY_ASSIGN(RegexAst ast, ParseAlternatives(0));
    if (!AtEnd()) return Fault("a ')' without its '('");
    return ast;
  }

 private:
  bool AtEnd() const { return at_ >= pattern_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  bool Take(std::string_view text) {
    if (!pattern_.substr(std::min(at_, pattern_.size())).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  std::unexpected<Error> Fault(std::string_view what) const {
    return Err(Code::kUnsupported, "regular expression '{}': {} at byte {}",
               pattern_.substr(0, 200), what, at_);
  }

  Result<RegexAst> ParseAlternatives(int depth) {
    if (depth > kMaxDepth) return Fault("groups too deep");
    const bool ignore_case = ignore_case_;
    const bool dot_all = dot_all_;
    RegexAst ast;
    ast.kind = Kind::kAlternate;
    do {
      TRY_ASSIGN(RegexAst branch, ParseSequence(depth));
      ast.children.push_back(std::move(branch));
    } while (Take("|"));
    ignore_case_ = ignore_case;
    dot_all_ = dot_all;
    if (ast.children.size() > 1) return ast;
    RegexAst only = std::move(ast.children.front());
    return only;
  }

  Result<RegexAst> ParseSequence(int depth) {
    RegexAst sequence;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (Take("(?#")) {
        const size_t end = pattern_.find(')', at_);
        if (end == std::string_view::npos) return Fault("a comment without its ')'");
        at_ = end + 1;
        continue;
      }
      TRY_ASSIGN(RegexAst atom, ParseAtom(depth));
      TRY(ParseQuantifiers(atom));
      sequence.children.push_back(std::move(atom));
    }
    return sequence;
  }

  Result<RegexAst> ParseAtom(int depth) {
    const char c = Peek();
    if (c == '(') return ParseGroup(depth);
    if (c == '[') {
      ++at_;
      TRY_ASSIGN(CharRanges set, ParseClass(depth));
      return SetNode(std::move(set));
    }
    if (c == '*' || c == '+' || c == '?') return Fault("a quantifier with nothing before it");
    if (c == '\\') return ParseEscape();
    if (c == '^' || c == '$') {
      ++at_;
      return AssertNode(c == '^' ? RegexNode::kLineBegin : RegexNode::kLineEnd);
    }
    if (c == '.') {
      ++at_;
      return SetNode(dot_all_ ? CharRanges(0, 0x10FFFF) : CharRanges('\n', '\n').Negated());
    }
    return Literal(TakeCodePoint());
  }

  static RegexAst AssertNode(RegexNode::Assertion assertion) {
    RegexAst node;
    node.kind = Kind::kAssert;
    node.assertion = assertion;
    return node;
  }

  RegexAst Literal(char32_t c) const {
    CharRanges set(c, c);
    if (ignore_case_) set.AddOtherCases();
    return SetNode(std::move(set));
  }

  char32_t TakeCodePoint() {
    const CodePoint c = DecodeUtf8(pattern_.substr(at_));
    at_ += c.bytes;
    return c.value;
  }

  Result<RegexAst> ParseGroup(int depth) {
    ++at_;
    RegexAst outer;
    outer.kind = Kind::kSequence;
    if (Take("?")) {
      TRY_ASSIGN(const bool whole, ParseGroupKind(outer));
      // (?i) holds to the end of the group around it.
      if (whole) return RegexAst();
    }
    const bool ignore_case = group_ignore_case_.value_or(ignore_case_);
    const bool dot_all = group_dot_all_.value_or(dot_all_);
    const bool saved_case = std::exchange(ignore_case_, ignore_case);
    const bool saved_dot = std::exchange(dot_all_, dot_all);
    group_ignore_case_.reset();
    group_dot_all_.reset();
    TRY_ASSIGN(RegexAst body, ParseAlternatives(depth + 1));
    ignore_case_ = saved_case;
    dot_all_ = saved_dot;
    if (!Take(")")) return Fault("a '(' without its ')'");
    if (outer.kind == Kind::kSequence) return body;
    outer.children.push_back(std::move(body));
    return outer;
  }

  // After "(?". True for a group that only sets options.
  Result<bool> ParseGroupKind(RegexAst& outer) {
    if (Take(":")) return false;
    if (Take(">")) {
      outer.kind = Kind::kAtomic;
      return false;
    }
    for (const std::string_view look : {"<=", "<!", "=", "!"}) {
      if (!Take(look)) continue;
      outer.kind = Kind::kLook;
      outer.behind = look.size() == 2;
      outer.negative = look.back() == '!';
      return false;
    }
    if (Take("<")) {
      const size_t end = pattern_.find('>', at_);
      if (end == std::string_view::npos) return Fault("a group's name without its '>'");
      at_ = end + 1;
      return false;
    }
    bool on = true;
    bool ignore_case = ignore_case_;
    bool dot_all = dot_all_;
    for (; Peek() != ':' && Peek() != ')'; ++at_) {
      if (Peek() == '-')
        on = false;
      else if (Peek() == 'i')
        ignore_case = on;
      else if (Peek() == 'm')
        dot_all = on;
      else
        return Fault("an option other than i and m");
    }
    if (Take(")")) {
      ignore_case_ = ignore_case;
      dot_all_ = dot_all;
      return true;
    }
    ++at_;
    group_ignore_case_ = ignore_case;
    group_dot_all_ = dot_all;
    return false;
  }

  Status ParseQuantifiers(RegexAst& atom) {
    while (true) {
      uint32_t min = 0;
      uint32_t max = kUnboundedRepeat;
      bool braces = false;
      if (Take("*")) {
      } else if (Take("+")) {
        min = 1;
      } else if (Take("?")) {
        max = 1;
      } else if (ParseBraces(min, max)) {
        braces = true;
      } else {
        return {};
      }
      if (min > kMaxRepeat || (max > kMaxRepeat && max != kUnboundedRepeat)) {
        return Fault("a repeat of more than 1000");
      }
      if (max < min) return Fault("a repeat whose ends are the wrong way round");
      RegexAst repeat;
      repeat.kind = Kind::kRepeat;
      repeat.min = min;
      repeat.max = max;
      if (Take("?")) {
        repeat.mode = Mode::kLazy;
      } else if (!braces && Take("+")) {  // after braces, + repeats the repeat
        repeat.mode = Mode::kPossessive;
      }
      repeat.children.push_back(std::move(atom));
      atom = std::move(repeat);
      if (++repeats_ > kMaxRepeat) return Fault("too many repeats");
    }
  }

  // {n} {n,} {,m} {n,m}; anything else is a plain brace.
  bool ParseBraces(uint32_t& min, uint32_t& max) {
    const size_t start = at_;
    if (!Take("{")) return false;
    const std::optional<uint32_t> low = TakeNumber();
    std::optional<uint32_t> high = low;
    const bool comma = Take(",");
    if (comma) high = TakeNumber();
    if (!Take("}") || (!low && !high)) {
      at_ = start;
      return false;
    }
    min = low.value_or(0);
    max = high.value_or(kUnboundedRepeat);
    return true;
  }

  std::optional<uint32_t> TakeNumber() {
    if (Peek() < '0' || Peek() > '9') return std::nullopt;
    uint32_t number = 0;
    for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
      number = std::min<uint32_t>(number * 10 + static_cast<uint32_t>(Peek() - '0'), 1000000);
    }
    return number;
  }

  Result<RegexAst> ParseEscape() {
    const char c = Peek(1);
    switch (c) {
      case 'A':
        at_ += 2;
        return AssertNode(RegexNode::kTextBegin);
      case 'z':
        at_ += 2;
        return AssertNode(RegexNode::kTextEnd);
      case 'Z':
        at_ += 2;
        return AssertNode(RegexNode::kTextEndOrNewline);
      case 'b':
        at_ += 2;
        return AssertNode(RegexNode::kWordEdge);
      case 'B':
        at_ += 2;
        return AssertNode(RegexNode::kNoWordEdge);
      case 'R': {
        at_ += 2;
        return ParseSource("(?>\\r\\n|[\\n\\x0B\\f\\r\\x85\\u2028\\u2029])");
      }
      default:
        break;
    }
    TRY_ASSIGN(const Escape escape, TakeEscape());
    if (escape.is_class) return SetNode(escape.set);
    return Literal(escape.code_point);
  }

  static Result<RegexAst> ParseSource(std::string_view pattern) { return Parser(pattern).Parse(); }

  struct Escape {
    bool is_class = false;
    CharRanges set;
    char32_t code_point = 0;
  };

  // After a backslash, inside or outside of a class.
  Result<Escape> TakeEscape() {
    ++at_;
    if (AtEnd()) return Fault("a backslash at the end");
    const char c = Peek();
    Escape out;
    if (c == 'p' || c == 'P') {
      out.is_class = true;
      TRY_ASSIGN(out.set, TakeProperty());
      return out;
    }
    if (auto set = ClassByEscape(c)) {
      ++at_;
      out.is_class = true;
      out.set = *std::move(set);
      return out;
    }
    TRY_ASSIGN(out.code_point, TakeEscapedChar());
    return out;
  }

  Result<CharRanges> TakeProperty() {
    bool negative = Peek() == 'P';
    ++at_;
    if (!Take("{")) return Fault("a property without braces");
    if (Take("^")) negative = !negative;
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return Fault("a property without its '}'");
    const auto set = ClassByProperty(pattern_.substr(at_, end - at_));
    if (!set) return Fault("an unknown property");
    at_ = end + 1;
    return negative ? set->Negated() : *set;
  }

  Result<char32_t> TakeEscapedChar() {
    const char c = Peek();
    static constexpr std::pair<char, char32_t> kControls[] = {
        {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B},
    };
    for (const auto& [letter, value] : kControls) {
      if (c != letter) continue;
      ++at_;
      return char32_t{value};
    }
    if (c == 'x' || c == 'u') return TakeHex();
    if (c == '0') {
      ++at_;
      char32_t value = 0;
      for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i, ++at_) {
        value = value * 8 + static_cast<char32_t>(Peek() - '0');
      }
      return value;
    }
    if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return Fault("an escape that is not supported");
    }
    return TakeCodePoint();
  }

  Result<char32_t> TakeHex() {
    const bool wide = Peek() == 'u';
    ++at_;
    const bool braces = !wide && Take("{");
    const int most = braces ? 6 : wide ? 4 : 2;
    char32_t value = 0;
    int digits = 0;
    for (; digits < most; ++digits, ++at_) {
      const char c = Peek();
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<char32_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + static_cast<char32_t>(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F')
        value = value * 16 + static_cast<char32_t>(c - 'A' + 10);
      else
        break;
    }
    if (digits == 0 || (braces && !Take("}")) || value > 0x10FFFF) {
      return Fault("a character number that is none");
    }
    return value;
  }

  // After "[". Sets inside are joined, && keeps what both sides have.
  Result<CharRanges> ParseClass(int depth) {
    if (depth > kMaxDepth) return Fault("classes too deep");
    const bool negative = Take("^");
    CharRanges all;
    CharRanges part;
    bool has_all = false;
    bool first = true;
    const auto close_part = [&] {
      all = has_all ? all.And(part) : part;
      has_all = true;
      part = CharRanges();
    };
    while (first || Peek() != ']') {
      if (AtEnd()) return Fault("a class without its ']'");
      if (Take("&&")) {
        close_part();
      } else {
        TRY(ParseClassItem(depth, part));
      }
      first = false;
    }
    ++at_;
    close_part();
    if (ignore_case_) all.AddOtherCases();
    return negative ? all.Negated() : all;
  }

  Status ParseClassItem(int depth, CharRanges& out) {
    if (Peek() == '[' && Peek(1) == ':') {
      const size_t end = pattern_.find(":]", at_);
      if (end != std::string_view::npos) return TakePosix(end, out);
    }
    if (Take("[")) {
      TRY_ASSIGN(const CharRanges inner, ParseClass(depth + 1));
      out.Add(inner);
      return {};
    }
    TRY_ASSIGN(const Escape low, TakeClassChar());
    if (low.is_class) {
      out.Add(low.set);
      return {};
    }
    char32_t last = low.code_point;
    if (Peek() == '-' && Peek(1) != ']' && Peek(1) != '\0' && Peek(1) != '[') {
      ++at_;
      TRY_ASSIGN(const Escape high, TakeClassChar());
      if (high.is_class) {  // the hyphen stands for itself
        out.Add(CharRanges('-', '-'));
        out.Add(high.set);
      } else {
        last = high.code_point;
      }
      if (last < low.code_point) return Fault("a range whose ends are the wrong way round");
    }
    out.Add(CharRanges(low.code_point, last));
    return {};
  }

  Result<Escape> TakeClassChar() {
    if (Peek() == '\\' && Peek(1) == 'b') {
      at_ += 2;
      return Escape{.is_class = false, .set = {}, .code_point = '\b'};
    }
    if (Peek() == '\\') return TakeEscape();
    return Escape{.is_class = false, .set = {}, .code_point = TakeCodePoint()};
  }

  Status TakePosix(size_t end, CharRanges& out) {
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    const bool negative = name.starts_with('^');
    if (negative) name.remove_prefix(1);
    const auto set = ClassByPosixName(name);
    if (!set) return Fault("an unknown POSIX class");
    at_ = end + 2;
    out.Add(negative ? set->Negated() : *set);
    return {};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  uint32_t repeats_ = 0;
  bool ignore_case_ = false;
  bool dot_all_ = false;
  std::optional<bool> group_ignore_case_;
  std::optional<bool> group_dot_all_;
};

}  // namespace

Result<RegexAst> ParseRegex(std::string_view pattern) { return Parser(pattern).Parse(); }

}  // namespace tandem::text

#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "text/jinja_literal.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace tandem::text::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Line ends become \n, and one at the very end is dropped.
std::string Normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  Result<std::vector<Token>> Run() {
    while (!rest_.empty()) TRY(TextAndTag());
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void Push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void Skip(size_t bytes) {
    const std::string_view skipped = rest_.substr(0, bytes);
    line_ += static_cast<uint32_t>(std::count(skipped.begin(), skipped.end(), '\n'));
    if (!skipped.empty()) after_newline_ = skipped.back() == '\n';
    rest_.remove_prefix(skipped.size());
  }

  void SkipSpace() { Skip(rest_.size() - StripLeft(rest_).size()); }

  std::unexpected<Error> Fail(std::string_view what) const {
    return Err(Code::kInvalidArgument, "chat template, line {}: {}", line_, what);
  }

  // The text before a tag: all white space at its end goes with `-`, that since the start of the
  // line goes before a block or comment without `+`.
  void EmitText(std::string_view text, char sign, bool is_output) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = StripRight(text);
    } else if (sign != '+' && !is_output) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == kNone ? 0 : newline + 1;
      const bool line_begins = start > 0 || after_newline_;
      if (line_begins && StripLeft(text.substr(start)).empty()) kept = text.substr(0, start);
    }
    if (!kept.empty()) Push(TokenKind::kText, std::string(kept));
    Skip(text.size());
  }

  Status TextAndTag() {
    size_t at = 0;
    while (true) {
      at = rest_.find('{', at);
      if (at == kNone || at + 1 >= rest_.size()) {
        Push(TokenKind::kText, std::string(rest_));
        Skip(rest_.size());
        return {};
      }
      const char kind = rest_[at + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++at;
    }
    const char kind = rest_[at + 1];
    const char sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
    const bool signed_tag = sign == '-' || sign == '+';
    EmitText(rest_.substr(0, at), sign, kind == '{');
    if (kind == '%' && IsWordTag("raw")) return Raw();
    Skip(signed_tag ? 3 : 2);
    if (kind == '#') return Comment();
    return Tag(kind == '{');
  }

  // Whether rest_ begins with {% word %}, in any of its forms; its length then.
  size_t IsWordTag(std::string_view word) const {
    std::string_view at = rest_.substr(2);
    if (at.starts_with('-') || at.starts_with('+')) at.remove_prefix(1);
    at = StripLeft(at);
    if (!at.starts_with(word)) return 0;
    at = StripLeft(at.substr(word.size()));
    if (at.starts_with('-') || at.starts_with('+')) at.remove_prefix(1);
    return at.starts_with("%}") ? rest_.size() - at.size() + 2 : 0;
  }

  // After a tag's end: `-` takes the white space that follows, else a block takes one line end.
  void AfterTag(char sign, bool trims_newline) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trims_newline && rest_.starts_with('\n')) {
      Skip(1);
    }
  }

  Status Raw() {
    const size_t length = IsWordTag("raw");
    const char begin_sign = rest_[length - 3];
    Skip(length);
    if (begin_sign == '-') SkipSpace();
    for (size_t at = rest_.find("{%"); at != kNone; at = rest_.find("{%", at + 2)) {
      const std::string_view whole = rest_;
      rest_ = whole.substr(at);
      const size_t end = IsWordTag("endraw");
      const char sign = rest_.size() > 2 ? rest_[2] : '\0';
      rest_ = whole;
      if (end == 0) continue;
      EmitText(rest_.substr(0, at), sign, false);
      const char end_sign = rest_[end - 3];
      Skip(end);
      AfterTag(end_sign, true);
      return {};
    }
    return Fail("missing end of raw block");
  }

  Status Comment() {
    const size_t end = rest_.find("#}");
    if (end == kNone) return Fail("missing end of comment tag");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    Skip(end + 2);
    AfterTag(sign, true);
    return {};
  }

  Status Tag(bool is_output) {
    Push(is_output ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, "");
    const std::string_view close = is_output ? "}}" : "%}";
    std::string open;  // brackets that are not closed yet
    while (true) {
      SkipSpace();
      if (rest_.empty()) return Fail("unexpected end of template inside a tag");
      const bool has_sign = rest_[0] == '-' || (rest_[0] == '+' && !is_output);
      if (open.empty() && rest_.substr(has_sign ? 1 : 0).starts_with(close)) {
        Push(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, "");
        const char sign = has_sign ? rest_[0] : '\0';
        Skip(has_sign ? 3 : 2);
        AfterTag(sign, !is_output);
        return {};
      }
      TRY(Lexeme(open));
    }
  }

  Status Lexeme(std::string& open) {
    const char first = rest_[0];
    if (first == '\'' || first == '"') return String();
    if (first >= '0' && first <= '9') return Number();
    if (IsWordByte(first)) {
      size_t end = 1;
      while (end < rest_.size() && IsWordByte(rest_[end])) ++end;
      Push(TokenKind::kName, std::string(rest_.substr(0, end)));
      Skip(end);
      return {};
    }
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    size_t length = 0;
    for (const std::string_view pair : kPairs) {
      if (rest_.starts_with(pair)) length = 2;
    }
    if (length == 0 && kSingles.find(first) != kNone) length = 1;
    if (length == 0) return Fail(fmt::format("unexpected character '{}'", first));
    if (first == '(' || first == '[' || first == '{') {
      open += first == '(' ? ')' : first == '[' ? ']' : '}';
    } else if (first == ')' || first == ']' || first == '}') {
      if (!open.ends_with(first)) return Fail(fmt::format("unexpected '{}'", first));
      open.pop_back();
    }
    Push(TokenKind::kOperator, std::string(rest_.substr(0, length)));
    Skip(length);
    return {};
  }

  Status String() {
    const char quote = rest_[0];
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return Fail("string is not closed");
    auto value = Unescape(rest_.substr(1, end - 1));
    if (!value) return Fail(value.error().message);
    Push(TokenKind::kString, std::move(*value));
    Skip(end + 1);
    return {};
  }

  Status Number() {
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                           tokens_.back().text == ".";
    const NumberShape shape = ScanNumber(rest_, !after_dot);
    Push(shape.is_float ? TokenKind::kFloat : TokenKind::kInteger,
         std::string(rest_.substr(0, shape.bytes)));
    Skip(shape.bytes);
    return {};
  }

  std::string source_;
  std::string_view rest_;
  uint32_t line_ = 1;
  bool after_newline_ = true;  // what was read last ended a line, or nothing was read yet
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenise(std::string_view source) {
  if (!IsValidUtf8(source)) return Err(Code::kInvalidArgument, "chat template is not valid UTF-8");
  return Lexer(Normalise(source)).Run();
}

}  // namespace tandem::text::jinja

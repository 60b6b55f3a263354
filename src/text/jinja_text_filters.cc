// Filters over text.
#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_format.h"
#include "text/jinja_interp.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

Result<Value> Capitalize(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  return interp.NewString(Capitalise(text), self.IsSafe());
}

Result<Value> Center(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"width"}));
  TRY_ASSIGN(const int64_t width, bound.Int(0, 80));
  TRY_ASSIGN(std::string text, interp.Str(self));
  const auto wanted = static_cast<size_t>(std::max<int64_t>(width, 0));
  TRY(interp.Charge(wanted));
  // Python's str.center puts the odd blank before the text when the width is odd, else behind it.
  const size_t length = CountCodePoints(text);
  if (wanted > length && (wanted - length) % 2 == 1 && wanted % 2 == 1) text.insert(0, 1, ' ');
  return interp.NewString(Pad(std::move(text), wanted, '^'), self.IsSafe());
}

Result<Value> EscapeFilter(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.IsSafe()) return self;
  TRY_ASSIGN(const std::string text, interp.Str(self));
  return interp.NewString(Escape(text), true);
}

Result<Value> ForceEscape(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  return interp.NewString(Escape(text), true);
}

Result<Value> Format(Interp& interp, const Value& self, const CallArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return Err(Code::kInvalidArgument, "format: positional and named arguments together");
  }
  TRY_ASSIGN(std::string text, interp.Str(self));
  TRY_ASSIGN(const Value format, interp.NewString(std::move(text), self.IsSafe()));
  if (args.named.empty()) {
    TRY_ASSIGN(const Value tuple, interp.NewTuple(args.positional));
    return PercentFormat(interp, format, tuple);
  }
  Dict dict;
  for (const auto& [name, value] : args.named) dict.Set(name, value);
  TRY_ASSIGN(const Value named, interp.NewDict(std::move(dict)));
  return PercentFormat(interp, format, named);
}

Result<Value> Indent(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"width", "first", "blank"}));
  std::string indention;
  if (bound.Has(0) && bound.At(0)->IsString()) {
    indention = bound.At(0)->AsString();
  } else {
    TRY_ASSIGN(const int64_t width, bound.Int(0, 4));
    indention.assign(static_cast<size_t>(std::clamp<int64_t>(width, 0, 10000)), ' ');
  }
  const bool first = bound.Has(1) && interp.IsTrue(*bound.At(1));
  const bool blank = bound.Has(2) && interp.IsTrue(*bound.At(2));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  std::string out;
  bool at_first = true;
  std::string_view rest = text;
  while (true) {
    const size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    if (at_first ? first : blank || !line.empty()) {
      TRY(interp.Charge(indention.size()));
      out += indention;
    }
    at_first = false;
    out += line;
    if (newline == std::string_view::npos) break;
    out += '\n';
    rest.remove_prefix(newline + 1);
  }
  return interp.NewString(std::move(out), self.IsSafe());
}

Result<Value> Lower(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  return interp.NewString(ToLower(text), self.IsSafe());
}

Result<Value> Upper(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  return interp.NewString(ToUpper(text), self.IsSafe());
}

Result<Value> Replace(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"old", "new", "count"}, 2));
  TRY_ASSIGN(std::string text, interp.Str(self));
  TRY_ASSIGN(std::string from, interp.Str(*bound.At(0)));
  TRY_ASSIGN(std::string to, interp.Str(*bound.At(1)));
  CallArgs call;
  call.positional = {Value::String(std::move(from)), Value::String(std::move(to))};
  if (bound.Has(2) && !bound.At(2)->IsNone()) call.positional.push_back(*bound.At(2));
  const Value plain = Value::String(std::move(text));
  return FindMethod(plain, "replace")->run(interp, plain, call);
}

Result<Value> Safe(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(std::string text, interp.Str(self));
  return interp.NewString(std::move(text), true);
}

Result<Value> String(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  if (self.IsString()) return self;
  TRY_ASSIGN(std::string text, interp.Str(self));
  return interp.NewString(std::move(text));
}

Result<Value> StripTags(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  std::string plain;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find('<'), rest.size());
    plain += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const bool comment = rest.starts_with("<!--");
    const size_t close = rest.find(comment ? "-->" : ">");
    if (close == std::string_view::npos) {
      plain += rest;
      break;
    }
    rest.remove_prefix(close + (comment ? 3 : 1));
  }
  std::string out;
  for (std::string_view words = StripLeft(plain); !words.empty(); words = StripLeft(words)) {
    size_t end = 0;
    while (end < words.size()) {
      const CodePoint c = DecodeUtf8(words.substr(end));
      if (IsPythonSpace(c.value)) break;
      end += c.bytes;
    }
    if (!out.empty()) out += ' ';
    out += words.substr(0, end);
    words.remove_prefix(end);
  }
  return interp.NewString(std::move(out));
}

// Words as split by white space and opening brackets or hyphens, each with a capital.
Result<Value> Title(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  static constexpr std::string_view kBreaks = "-({[<";
  std::string out;
  std::string word;
  const auto flush = [&] {
    out += Capitalise(word);
    word.clear();
  };
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint c = DecodeUtf8(rest);
    const bool breaks =
        IsPythonSpace(c.value) || (c.bytes == 1 && kBreaks.find(rest[0]) != std::string_view::npos);
    if (breaks) flush();
    (breaks ? out : word) += rest.substr(0, c.bytes);
    rest.remove_prefix(c.bytes);
  }
  flush();
  return interp.NewString(std::move(out), self.IsSafe());
}

Result<Value> Trim(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"chars"}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  if (!bound.Has(0) || bound.At(0)->IsNone()) {
    return interp.NewString(std::string(Strip(text)), self.IsSafe());
  }
  TRY_ASSIGN(const std::string_view chars, bound.Text(0, ""));
  return interp.NewString(std::string(StripLeftOf(StripRightOf(text, chars), chars)),
                          self.IsSafe());
}

Result<Value> Truncate(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound,
             BoundArgs::Bind(args, {"length", "killwords", "end", "leeway"}));
  TRY_ASSIGN(const int64_t length, bound.Int(0, 255));
  TRY_ASSIGN(const std::string_view end, bound.Text(2, "..."));
  TRY_ASSIGN(const int64_t leeway, bound.Int(3, 5));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  const auto end_length = static_cast<int64_t>(CountCodePoints(end));
  if (length < end_length || leeway < 0) {
    return Err(Code::kInvalidArgument, "truncate: length {} and leeway {} do not fit", length,
               leeway);
  }
  const auto size = static_cast<int64_t>(CountCodePoints(text));
  if (size - leeway <= length) return interp.NewString(text);
  std::string cut =
      text.substr(0, OffsetOfCodePoint(text, static_cast<size_t>(length - end_length)));
  const bool kill_words = bound.Has(1) && interp.IsTrue(*bound.At(1));
  if (!kill_words) cut = cut.substr(0, cut.rfind(' '));
  return interp.NewString(cut + std::string(end));
}

// In a query string a blank is a plus and a slash is encoded.
void AppendPercentEncoded(std::string_view text, bool query, std::string& out) {
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos ||
                       (c == '/' && !query);
    if (query && c == ' ') {
      out += '+';
    } else if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
}

Result<Value> UrlEncode(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  std::string out;
  if (!self.IsDict()) {
    TRY_ASSIGN(const std::string text, interp.Str(self));
    AppendPercentEncoded(text, false, out);
    return interp.NewString(std::move(out));
  }
  for (const auto& [key, item] : self.AsDict().entries()) {
    TRY_ASSIGN(const std::string name, interp.Str(key));
    TRY_ASSIGN(const std::string text, interp.Str(item));
    if (!out.empty()) out += '&';
    AppendPercentEncoded(name, true, out);
    out += '=';
    AppendPercentEncoded(text, true, out);
  }
  return interp.NewString(std::move(out));
}

bool IsWordCharacter(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

Result<Value> WordCount(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY_ASSIGN(const std::string text, interp.Str(self));
  int64_t count = 0;
  bool inside = false;
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint c = DecodeUtf8(rest);
    const bool word = IsWordCharacter(c.value);
    count += word && !inside ? 1 : 0;
    inside = word;
    rest.remove_prefix(c.bytes);
  }
  return Value::Int(count);
}

constexpr Builtin kFilters[] = {
    {"capitalize", Capitalize},
    {"center", Center},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"indent", Indent},
    {"lower", Lower},
    {"replace", Replace},
    {"safe", Safe},
    {"string", String},
    {"striptags", StripTags},
    {"title", Title},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Upper},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

std::span<const Builtin> TextFilters() { return kFilters; }

}  // namespace tandem::text::jinja

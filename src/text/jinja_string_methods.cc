// Methods of strings.
#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_format.h"
#include "text/jinja_interp.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr int64_t kNoLimit = -1;

Result<Value> Like(Interp& interp, const Value& self, std::string_view text) {
  return interp.NewString(std::string(text), self.IsSafe());
}

// An argument that becomes part of a safe string is escaped first.
std::string Joined(const Value& self, const Value& argument) {
  const bool escape = self.IsSafe() && !argument.IsSafe();
  return escape ? Escape(argument.AsString()) : argument.AsString();
}

template <std::string (*kChange)(std::string_view)>
Result<Value> Changed(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  TRY(interp.Step(self.AsString().size() / 64));
  return Like(interp, self, kChange(self.AsString()));
}

template <bool kLeft, bool kRight>
Result<Value> StripMethod(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"chars"}));
  std::string_view text = self.AsString();
  TRY(interp.Step(text.size() / 64));
  if (!bound.Has(0) || bound.At(0)->IsNone()) {
    if (kLeft) text = StripLeft(text);
    if (kRight) text = StripRight(text);
    return Like(interp, self, text);
  }
  TRY_ASSIGN(const std::string_view chars, bound.Text(0, ""));
  if (kLeft) text = StripLeftOf(text, chars);
  if (kRight) text = StripRightOf(text, chars);
  return Like(interp, self, text);
}

// From the left, by white space of any length.
std::vector<std::string_view> SplitWords(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = StripLeft(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint c = DecodeUtf8(text.substr(end));
      if (IsPythonSpace(c.value)) break;
      end += c.bytes;
    }
    parts.push_back(text.substr(0, end));
    text = StripLeft(text.substr(end));
  }
  return parts;
}

std::vector<std::string_view> SplitWordsRight(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = StripRight(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      const std::string_view last = LastCharacter(text.substr(0, start));
      if (IsPythonSpace(DecodeUtf8(last).value)) break;
      start -= last.size();
    }
    parts.push_back(text.substr(start));
    text = StripRight(text.substr(0, start));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitBy(std::string_view text, std::string_view separator,
                                      int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == kNone) break;
    if (from_right) {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<Value> ListOf(Interp& interp, const Value& self,
                     const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    TRY_ASSIGN(Value item, Like(interp, self, part));
    items.push_back(std::move(item));
  }
  return interp.NewList(std::move(items));
}

template <bool kRight>
Result<Value> Split(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"sep", "maxsplit"}));
  TRY_ASSIGN(const int64_t limit, bound.Int(1, kNoLimit));
  const std::string_view text = self.AsString();
  TRY(interp.Step(text.size() / 64));
  if (!bound.Has(0) || bound.At(0)->IsNone()) {
    return ListOf(interp, self, kRight ? SplitWordsRight(text, limit) : SplitWords(text, limit));
  }
  TRY_ASSIGN(const std::string_view separator, bound.Text(0, ""));
  if (separator.empty()) return Err(Code::kInvalidArgument, "split: empty separator");
  return ListOf(interp, self, SplitBy(text, separator, limit, kRight));
}

bool IsLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Result<Value> SplitLines(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"keepends"}));
  const bool keep = bound.Has(0) && interp.IsTrue(*bound.At(0));
  std::vector<std::string_view> lines;
  std::string_view text = self.AsString();
  TRY(interp.Step(text.size() / 64));
  size_t end = 0;
  while (end < text.size()) {
    const CodePoint c = DecodeUtf8(text.substr(end));
    if (!IsLineBreak(c.value)) {
      end += c.bytes;
      continue;
    }
    const size_t after = end + (text.substr(end).starts_with("\r\n") ? 2 : c.bytes);
    lines.push_back(text.substr(0, keep ? after : end));
    text.remove_prefix(after);
    end = 0;
  }
  if (!text.empty()) lines.push_back(text);
  return ListOf(interp, self, lines);
}

// The part of the text that optional start and end leave, and where it begins.
Result<std::string_view> Window(Interp& interp, const Value& self, const BoundArgs& bound,
                                size_t from, int64_t& offset) {
  std::string_view text = self.AsString();
  TRY(interp.Step(text.size() / 64));
  offset = 0;
  if (!bound.Has(from) && !bound.Has(from + 1)) return text;
  const auto length = static_cast<int64_t>(CountCodePoints(text));
  const auto place = [&](const Value* value, int64_t fallback) {
    if (value == nullptr || !value->IsInt()) return fallback;
    const int64_t at = value->AsInt();
    return std::clamp<int64_t>(at < 0 ? std::max(at, -length) + length : at, 0, length);
  };
  const int64_t start = place(bound.At(from), 0);
  const int64_t stop = std::max(start, place(bound.At(from + 1), length));
  offset = start;
  text = text.substr(OffsetOfCodePoint(text, static_cast<size_t>(start)));
  return text.substr(0, OffsetOfCodePoint(text, static_cast<size_t>(stop - start)));
}

template <bool kAtEnd>
Result<Value> HasEnd(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"affix", "start", "end"}, 1));
  int64_t offset = 0;
  TRY_ASSIGN(const std::string_view text, Window(interp, self, bound, 1, offset));
  const Value& affix = *bound.At(0);
  const auto fits = [&](const Value& one) {
    return kAtEnd ? text.ends_with(one.AsString()) : text.starts_with(one.AsString());
  };
  if (affix.IsString()) return Value::Bool(fits(affix));
  const bool tuple = affix.kind() == Value::Kind::kTuple &&
                     std::all_of(affix.Items().begin(), affix.Items().end(),
                                 [](const Value& one) { return one.IsString(); });
  if (!tuple) {
    return Err(Code::kInvalidArgument, "startswith and endswith need a string or a tuple of them");
  }
  return Value::Bool(std::any_of(affix.Items().begin(), affix.Items().end(), fits));
}

template <bool kFromRight, bool kMustFind>
Result<Value> Find(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"sub", "start", "end"}, 1));
  TRY_ASSIGN(const std::string_view sub, bound.Text(0, ""));
  int64_t offset = 0;
  TRY_ASSIGN(const std::string_view text, Window(interp, self, bound, 1, offset));
  const size_t at = kFromRight ? text.rfind(sub) : text.find(sub);
  if (at == kNone) {
    if (kMustFind) return Err(Code::kInvalidArgument, "substring not found");
    return Value::Int(-1);
  }
  return Value::Int(offset + static_cast<int64_t>(CountCodePoints(text.substr(0, at))));
}

Result<Value> Count(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"sub", "start", "end"}, 1));
  TRY_ASSIGN(const std::string_view sub, bound.Text(0, ""));
  int64_t offset = 0;
  TRY_ASSIGN(std::string_view text, Window(interp, self, bound, 1, offset));
  if (sub.empty()) return Value::Int(static_cast<int64_t>(CountCodePoints(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(sub); at != kNone; at = text.find(sub, at + sub.size())) ++count;
  return Value::Int(count);
}

Result<Value> Replace(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"old", "new", "count"}, 2));
  TRY(bound.Text(0, ""));
  TRY(bound.Text(1, ""));
  TRY_ASSIGN(const int64_t limit, bound.Int(2, kNoLimit));
  const std::string from = bound.At(0)->AsString();
  const std::string to = Joined(self, *bound.At(1));
  std::string_view text = self.AsString();
  TRY(interp.Step(text.size() / 64));
  std::string out;
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    // An empty pattern matches before every character and at the end.
    const size_t at = from.empty() ? (done == 0      ? 0
                                      : text.empty() ? kNone
                                                     : DecodeUtf8(text).bytes)
                                   : text.find(from);
    if (at == kNone) break;
    TRY(interp.Charge(at + to.size()));
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  out += text;
  return interp.NewString(std::move(out), self.IsSafe());
}

Result<Value> Join(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"iterable"}, 1));
  TRY_ASSIGN(const std::vector<Value> items, interp.ItemsOf(*bound.At(0)));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].IsString()) {
      return Err(Code::kInvalidArgument, "join: item {} is a '{}', not a string", i,
                 TypeName(items[i]));
    }
    TRY(interp.Charge(self.AsString().size() + items[i].AsString().size()));
    if (i > 0) out += self.AsString();
    out += Joined(self, items[i]);
  }
  return interp.NewString(std::move(out), self.IsSafe());
}

template <bool kPrefix>
Result<Value> RemoveAffix(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"affix"}, 1));
  TRY_ASSIGN(const std::string_view affix, bound.Text(0, ""));
  std::string_view text = self.AsString();
  if (kPrefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kPrefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return Like(interp, self, text);
}

template <bool kFromRight>
Result<Value> Partition(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"sep"}, 1));
  TRY_ASSIGN(const std::string_view separator, bound.Text(0, ""));
  if (separator.empty()) return Err(Code::kInvalidArgument, "partition: empty separator");
  const std::string_view text = self.AsString();
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  std::string_view parts[3] = {text, "", ""};
  if (at == kNone && kFromRight) std::swap(parts[0], parts[2]);
  if (at != kNone) {
    parts[0] = text.substr(0, at);
    parts[1] = separator;
    parts[2] = text.substr(at + separator.size());
  }
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    TRY_ASSIGN(Value item, Like(interp, self, part));
    items.push_back(std::move(item));
  }
  return interp.NewTuple(std::move(items));
}

template <char kAlign>
Result<Value> Justify(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"width", "fillchar"}, 1));
  TRY_ASSIGN(const int64_t width, bound.Int(0, 0));
  TRY_ASSIGN(const std::string_view fill, bound.Text(1, " "));
  if (CountCodePoints(fill) != 1) {
    return Err(Code::kInvalidArgument, "the fill character must be one character");
  }
  const auto wanted = static_cast<size_t>(std::max<int64_t>(width, 0));
  TRY(interp.Charge(wanted));
  std::string text = self.AsString();
  const size_t length = CountCodePoints(text);
  if (kAlign == '^' && wanted > length && (wanted - length) % 2 == 1 && wanted % 2 == 1) {
    text.insert(0, fill);
  }
  return Like(interp, self, Pad(std::move(text), wanted, kAlign, fill));
}

Result<Value> ZeroFill(Interp& interp, const Value& self, const CallArgs& args) {
  TRY_ASSIGN(const BoundArgs bound, BoundArgs::Bind(args, {"width"}, 1));
  TRY_ASSIGN(const int64_t width, bound.Int(0, 0));
  const std::string& text = self.AsString();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const auto wanted = static_cast<size_t>(std::max<int64_t>(width, 0));
  TRY(interp.Charge(wanted));
  const std::string digits = Pad(text.substr(sign), wanted > sign ? wanted - sign : 0, '>', "0");
  return Like(interp, self, text.substr(0, sign) + digits);
}

Result<Value> Format(Interp& interp, const Value& self, const CallArgs& args) {
  return BraceFormat(interp, self, args);
}

// isalpha and its like: every character is of the kind, and there is one.
template <bool (*kIn)(char32_t)>
Result<Value> AllOf(Interp& interp, const Value& self, const CallArgs& args) {
  TRY(BoundArgs::Bind(args, {}));
  std::string_view rest = self.AsString();
  TRY(interp.Step(rest.size() / 64));
  if (rest.empty()) return Value::Bool(false);
  while (!rest.empty()) {
    const CodePoint c = DecodeUtf8(rest);
    if (!kIn(c.value)) return Value::Bool(false);
    rest.remove_prefix(c.bytes);
  }
  return Value::Bool(true);
}

bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

// islower and isupper are the tests of the same meaning.
Result<Value> IsLowerMethod(Interp& interp, const Value& self, const CallArgs& args) {
  return FindTest("lower")->run(interp, self, args);
}
Result<Value> IsUpperMethod(Interp& interp, const Value& self, const CallArgs& args) {
  return FindTest("upper")->run(interp, self, args);
}

constexpr Builtin kMethods[] = {
    {"strip", StripMethod<true, true>},
    {"lstrip", StripMethod<true, false>},
    {"rstrip", StripMethod<false, true>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", SplitLines},
    {"startswith", HasEnd<false>},
    {"endswith", HasEnd<true>},
    {"replace", Replace},
    {"join", Join},
    {"find", Find<false, false>},
    {"rfind", Find<true, false>},
    {"index", Find<false, true>},
    {"rindex", Find<true, true>},
    {"count", Count},
    {"upper", Changed<ToUpper>},
    {"lower", Changed<ToLower>},
    {"casefold", Changed<ToLower>},
    {"title", Changed<ToTitle>},
    {"capitalize", Changed<Capitalise>},
    {"swapcase", Changed<SwapCase>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"ljust", Justify<'<'>},
    {"rjust", Justify<'>'>},
    {"center", Justify<'^'>},
    {"zfill", ZeroFill},
    {"format", Format},
    {"isalpha", AllOf<IsAlpha>},
    {"isalnum", AllOf<IsAlnum>},
    {"isdigit", AllOf<IsDecimal>},
    {"isdecimal", AllOf<IsDecimal>},
    {"isnumeric", AllOf<IsNumeric>},
    {"isspace", AllOf<IsPythonSpace>},
    {"islower", IsLowerMethod},
    {"isupper", IsUpperMethod},
};

}  // namespace

std::span<const Builtin> StringMethods() { return kMethods; }

}  // namespace tandem::text::jinja

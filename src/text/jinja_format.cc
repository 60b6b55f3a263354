#include "text/jinja_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja_interp.h"
#include "text/utf8.h"
#include "text/value_text.h"

namespace tandem::text::jinja {
namespace {

constexpr size_t kMaxWidth = 10000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number at the front of `text`, taken off it; bounded, so that no width makes us pad without
// end.
size_t TakeNumber(std::string_view& text) {
  size_t number = 0;
  while (!text.empty() && IsDigit(text.front())) {
    number = std::min(number * 10 + static_cast<size_t>(text.front() - '0'), kMaxWidth);
    text.remove_prefix(1);
  }
  return number;
}

// What stands between % or : and the letter of the conversion.
struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  size_t width = 0;
  std::optional<size_t> precision;
  char type = 0;
};

std::unexpected<Error> BadType(char type, const Value& value) {
  return Err(Code::kInvalidArgument, "format '{}' does not take a '{}'", type, TypeName(value));
}

std::string WithCommas(const std::string& digits) {
  std::string out;
  const size_t whole = std::min(digits.find('.'), digits.size());
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out + digits.substr(whole);
}

// Digits without sign; `negative` says which it had.
Result<std::string> NumberText(const Value& value, const Spec& spec, bool& negative) {
  const char type = spec.type;
  if (type == 'd' || type == 'i' || type == 'u' || type == 'x' || type == 'X' || type == 'o' ||
      type == 'b') {
    if (!value.IsNumber()) return BadType(type, value);
    if (value.IsFloat() && !(std::abs(value.AsDouble()) < 9e18)) return BadType(type, value);
    const int64_t number = value.IsFloat() ? static_cast<int64_t>(value.AsDouble()) : value.AsInt();
    negative = number < 0;
    const uint64_t size =
        negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const std::string_view prefix = !spec.alternate              ? ""
                                    : type == 'x' || type == 'X' ? "0x"
                                    : type == 'o'                ? "0o"
                                    : type == 'b'                ? "0b"
                                                                 : "";
    const std::string digits = type == 'x'   ? fmt::format("{:x}", size)
                               : type == 'X' ? fmt::format("{:X}", size)
                               : type == 'o' ? fmt::format("{:o}", size)
                               : type == 'b' ? fmt::format("{:b}", size)
                                             : fmt::to_string(size);
    return std::string(prefix) + digits;
  }
  if (!value.IsNumber()) return BadType(type, value);
  const double scale = type == '%' ? 100 : 1;
  const double number = value.AsDouble() * scale;
  negative = std::signbit(number);
  const auto precision = static_cast<int>(std::min<size_t>(spec.precision.value_or(6), 100));
  const double size = std::abs(number);
  if (type == 'e') return fmt::format("{:.{}e}", size, precision);
  if (type == 'g') return fmt::format("{:.{}g}", size, precision);
  return fmt::format("{:.{}f}{}", size, precision, type == '%' ? "%" : "");
}

Result<std::string> Apply(Interp& interp, const Value& value, Spec spec, char default_align) {
  const bool number = value.IsInt() || value.IsFloat() || (value.IsBool() && spec.type != 0);
  if (spec.type == 0) spec.type = value.IsFloat() && spec.precision ? 'g' : 's';
  std::string text;
  bool negative = false;
  bool numeric = false;
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    if (spec.type == 's') {
      TRY_ASSIGN(text, interp.Str(value));
    } else {
      AppendRepr(value, interp.memory_left(), text);
    }
    if (spec.precision) text.resize(OffsetOfCodePoint(text, *spec.precision));
    numeric = number && spec.type == 's';
    if (numeric && text.starts_with('-')) {
      negative = true;
      text.erase(0, 1);
    }
  } else {
    TRY_ASSIGN(text, NumberText(value, spec, negative));
    numeric = true;
  }
  if (numeric && spec.comma) text = WithCommas(text);
  const std::string sign = !numeric           ? ""
                           : negative         ? "-"
                           : spec.sign == '-' ? ""
                                              : std::string(1, spec.sign);
  const char align = spec.align != 0      ? spec.align
                     : default_align != 0 ? default_align
                     : numeric            ? '>'
                                          : '<';
  if (align == '=') {
    const size_t width = spec.width > sign.size() ? spec.width - sign.size() : 0;
    return sign + Pad(std::move(text), width, '>', spec.fill);
  }
  return Pad(sign + text, spec.width, align, spec.fill);
}

Result<Spec> ParseBraceSpec(std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const size_t first = DecodeUtf8(text).bytes;
    if (text.size() > first && is_align(text[first])) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      text.remove_prefix(first + 1);
    } else if (is_align(text[0])) {
      spec.align = text[0];
      text.remove_prefix(1);
    }
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('#')) {
    spec.alternate = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = TakeNumber(text);
  if (text.starts_with(',') || text.starts_with('_')) {
    spec.comma = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    spec.precision = TakeNumber(text);
  }
  if (!text.empty()) {
    spec.type = text[0] == 'F' ? 'f' : text[0];
    text.remove_prefix(1);
  }
  static constexpr std::string_view kTypes = "sdxXobfeg%";
  if (!text.empty() || (spec.type != 0 && kTypes.find(spec.type) == std::string_view::npos)) {
    return Err(Code::kInvalidArgument, "unknown format specification");
  }
  return spec;
}

// Fields number themselves or are all numbered by hand.
struct Numbering {
  size_t next = 0;
  bool by_hand = false;
  bool automatic = false;
};

// name, name.attribute, name[key] in any length
Result<Value> FieldValue(Interp& interp, std::string_view field, const CallArgs& args,
                         Numbering& numbering) {
  const size_t head_end = std::min(field.find_first_of(".["), field.size());
  const std::string_view head = field.substr(0, head_end);
  field.remove_prefix(head_end);
  Value value;
  if (head.empty() || IsDigit(head.front())) {
    std::string_view digits = head;
    const size_t index = head.empty() ? numbering.next++ : TakeNumber(digits);
    (head.empty() ? numbering.automatic : numbering.by_hand) = true;
    if (numbering.automatic && numbering.by_hand) {
      return Err(Code::kInvalidArgument, "format: fields with and without numbers");
    }
    if (index >= args.positional.size()) {
      return Err(Code::kInvalidArgument, "format: no argument number {}", index);
    }
    value = args.positional[index];
  } else {
    const auto found = std::find_if(args.named.begin(), args.named.end(),
                                    [head](const auto& named) { return named.first == head; });
    if (found == args.named.end()) {
      return Err(Code::kInvalidArgument, "format: no argument named '{}'", head);
    }
    value = found->second;
  }
  while (!field.empty()) {
    if (field.front() == '.') {
      field.remove_prefix(1);
      const size_t end = std::min(field.find_first_of(".["), field.size());
      TRY_ASSIGN(value, interp.Attribute(value, field.substr(0, end)));
      field.remove_prefix(end);
      continue;
    }
    const size_t end = field.find(']');
    if (end == std::string_view::npos) return Err(Code::kInvalidArgument, "format: missing ']'");
    std::string_view key = field.substr(1, end - 1);
    field.remove_prefix(end + 1);
    const bool index = !key.empty() && std::all_of(key.begin(), key.end(), IsDigit);
    const Value key_value =
        index ? Value::Int(static_cast<int64_t>(TakeNumber(key))) : Value::String(std::string(key));
    TRY_ASSIGN(value, interp.Item(value, key_value));
  }
  return value;
}

Result<std::string> ReplacementField(Interp& interp, std::string_view inside, const CallArgs& args,
                                     Numbering& numbering) {
  const size_t colon = std::min(inside.find(':'), inside.size());
  std::string_view name = inside.substr(0, colon);
  std::string_view spec_text = inside.substr(std::min(colon + 1, inside.size()));
  const size_t bang = name.find('!');
  const std::string_view conversion = bang == std::string_view::npos ? "" : name.substr(bang + 1);
  name = name.substr(0, bang);
  TRY_ASSIGN(Value value, FieldValue(interp, name, args, numbering));
  if (!conversion.empty()) {
    std::string text;
    if (conversion == "r") {
      AppendRepr(value, interp.memory_left(), text);
    } else {
      TRY_ASSIGN(text, interp.Str(value));
    }
    value = Value::String(std::move(text));
  }
  TRY_ASSIGN(const Spec spec, ParseBraceSpec(spec_text));
  return Apply(interp, value, spec, 0);
}

Spec TakePercentSpec(std::string_view& rest) {
  Spec spec;
  while (!rest.empty() && std::string_view("-+ #0").find(rest[0]) != std::string_view::npos) {
    if (rest[0] == '-') spec.align = '<';
    if (rest[0] == '+' || rest[0] == ' ') spec.sign = rest[0];
    if (rest[0] == '#') spec.alternate = true;
    if (rest[0] == '0' && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    rest.remove_prefix(1);
  }
  spec.width = TakeNumber(rest);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    spec.precision = TakeNumber(rest);
  }
  if (!rest.empty()) {
    spec.type = rest[0] == 'F' ? 'f' : rest[0];
    rest.remove_prefix(1);
  }
  return spec;
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Pad(std::string text, size_t width, char align, std::string_view fill) {
  const size_t length = CountCodePoints(text);
  if (length >= width) return text;
  const size_t missing = width - length;
  const size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::string out;
  for (size_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (size_t i = before; i < missing; ++i) out += fill;
  return out;
}

Result<Value> PercentFormat(Interp& interp, const Value& format, const Value& arguments) {
  static constexpr std::string_view kTypes = "sradiuxXofeg";
  std::string_view rest = format.AsString();
  const bool tuple = arguments.kind() == Value::Kind::kTuple;
  const size_t count = tuple ? arguments.Items().size() : 1;
  size_t used = 0;
  std::string out;
  while (!rest.empty()) {
    const size_t percent = std::min(rest.find('%'), rest.size());
    out += rest.substr(0, percent);
    rest.remove_prefix(percent);
    if (rest.empty()) break;
    rest.remove_prefix(1);
    if (rest.starts_with('%')) {
      out += '%';
      rest.remove_prefix(1);
      continue;
    }
    Value value;
    if (rest.starts_with('(')) {
      const size_t end = rest.find(')');
      if (end == std::string_view::npos || !arguments.IsDict()) {
        return Err(Code::kInvalidArgument, "% format: a mapping is needed");
      }
      const Value* found = arguments.AsDict().Find(rest.substr(1, end - 1));
      if (found == nullptr) return Err(Code::kInvalidArgument, "% format: a key is missing");
      value = *found;
      used = count;
      rest.remove_prefix(end + 1);
    } else {
      if (used >= count) return Err(Code::kInvalidArgument, "% format: not enough arguments");
      value = tuple ? arguments.Items()[used] : arguments;
      ++used;
    }
    Spec spec = TakePercentSpec(rest);
    if (spec.type == 0 || kTypes.find(spec.type) == std::string_view::npos) {
      return Err(Code::kInvalidArgument, "% format: unknown conversion");
    }
    TRY_ASSIGN(std::string text, Apply(interp, value, spec, '>'));
    out += format.IsSafe() && !value.IsSafe() ? Escape(text) : text;
    TRY(interp.Charge(text.size()));
  }
  if (used < count && !arguments.IsDict()) {
    return Err(Code::kInvalidArgument, "% format: not all arguments were used");
  }
  return interp.NewString(std::move(out), format.IsSafe());
}

Result<Value> BraceFormat(Interp& interp, const Value& format, const CallArgs& args) {
  std::string_view rest = format.AsString();
  Numbering numbering;
  std::string out;
  while (!rest.empty()) {
    const size_t brace = std::min(rest.find_first_of("{}"), rest.size());
    out += rest.substr(0, brace);
    rest.remove_prefix(brace);
    if (rest.empty()) break;
    if (rest.size() > 1 && rest[0] == rest[1]) {
      out += rest[0];
      rest.remove_prefix(2);
      continue;
    }
    const size_t end = rest.find('}');
    if (rest[0] == '}' || end == std::string_view::npos) {
      return Err(Code::kInvalidArgument, "format: a single brace");
    }
    TRY_ASSIGN(const std::string text,
               ReplacementField(interp, rest.substr(1, end - 1), args, numbering));
    TRY(interp.Charge(text.size()));
    out += format.IsSafe() ? Escape(text) : text;
    rest.remove_prefix(end + 1);
  }
  return interp.NewString(std::move(out), format.IsSafe());
}

}  // namespace tandem::text::jinja

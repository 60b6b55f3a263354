#include "apps/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "apps/nearest.h"
#include "base/check.h"

namespace tandem::apps {
namespace {

constexpr std::string_view kAuto = "auto";

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    if (at != 0) parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return parts;
}

// What --choices would do, as "a, b or c".
std::string OneOf(std::string_view choices) {
  std::string out;
  const auto parts = Split(choices, '|');
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " or " : ", ";
    out += parts[i];
  }
  return out;
}

std::string LowerTrimmed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c)))
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return out;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string_view KindOf(OptionType type) {
  switch (type) {
    case OptionType::kInt:
      return "a whole number";
    case OptionType::kSize:
      return "a whole number, which may end in k, m, g, K, M or G";
    case OptionType::kAutoSize:
      return "auto or a whole number, which may end in k, m, g, K, M or G";
    case OptionType::kNumber:
      return "a number";
    default:
      return "text";
  }
}

// `where` is "--http-port" or "DYN_HTTP_PORT".
Status CheckValue(const OptionSpec& spec, const std::string& where, const std::string& text) {
  if (!spec.choices.empty()) {
    const auto choices = Split(spec.choices, '|');
    if (std::ranges::find(choices, text) != choices.end()) return {};
    std::vector<std::string_view> views(choices.begin(), choices.end());
    const std::string_view near = Nearest(text, views);
    return FieldErr(where, "{}: '{}' is not one of its values: write {}{}", where, text,
                    OneOf(spec.choices), near.empty() ? "" : fmt::format(" (meant {}?)", near));
  }
  std::optional<double> number;
  if (spec.type == OptionType::kInt) {
    if (const auto value = ParseInt(text)) number = static_cast<double>(*value);
  } else if (spec.type == OptionType::kAutoSize && text == kAuto) {
    number = -1;
  } else if (spec.type == OptionType::kSize || spec.type == OptionType::kAutoSize) {
    if (const auto value = ParseSize(text)) number = static_cast<double>(*value);
  } else if (spec.type == OptionType::kNumber) {
    number = ParseNumber(text);
  } else {
    return {};
  }
  if (!number) return FieldErr(where, "{}: '{}' is not {}", where, text, KindOf(spec.type));
  if (*number < spec.minimum || *number > spec.maximum)
    return FieldErr(where, "{}: {} is out of range: write {:g} to {:g}", where, text, spec.minimum,
                    spec.maximum);
  return {};
}

}  // namespace

namespace {

// "25.6" of 1000s -> 25600; nothing where something of less than one is left.
std::optional<int64_t> ParseFraction(std::string_view text, int64_t factor) {
  const size_t point = text.find('.');
  const std::string_view decimals = text.substr(point + 1);
  if (decimals.empty() || decimals.size() > 9 ||
      !std::all_of(decimals.begin(), decimals.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return {};
  const auto whole = ParseInt(text.substr(0, point));
  const auto part = ParseInt(decimals);
  int64_t unit = 1;
  for (size_t i = 0; i < decimals.size(); ++i) unit *= 10;
  int64_t product = 0;
  if (!whole || *whole < 0 || !part || (*part * factor) % unit != 0 ||
      __builtin_mul_overflow(*whole, factor, &product) ||
      __builtin_add_overflow(product, *part * factor / unit, &product))
    return {};
  return product;
}

}  // namespace

std::optional<int64_t> ParseSize(std::string_view text) {
  constexpr std::string_view kSuffixes = "kmgKMG";
  constexpr std::array<int64_t, 6> kFactors = {1000,    1000000, 1000000000,
                                               1 << 10, 1 << 20, 1 << 30};
  int64_t factor = 1;
  if (!text.empty()) {
    const size_t at = kSuffixes.find(text.back());
    if (at != std::string_view::npos) {
      factor = kFactors[at];
      text.remove_suffix(1);
      if (at < 3 && text.find('.') != std::string_view::npos) return ParseFraction(text, factor);
    }
  }
  const auto value = ParseInt(text);
  int64_t product = 0;
  if (!value || __builtin_mul_overflow(*value, factor, &product)) return {};
  return product;
}

const ParsedOptions::Value& ParsedOptions::Get(std::string_view name) const {
  const auto found = values_.find(name);
  CHECK(found != values_.end());
  read_.emplace(name);
  return found->second;
}

bool ParsedOptions::Bool(std::string_view name) const {
  const Value& value = Get(name);
  CHECK(value.spec->type == OptionType::kBool);
  return value.text == "true";
}

int64_t ParsedOptions::Int(std::string_view name) const {
  const Value& value = Get(name);
  CHECK(value.spec->type == OptionType::kInt || value.spec->type == OptionType::kSize ||
        value.spec->type == OptionType::kAutoSize);
  if (value.text == kAuto) return -1;
  return ParseSize(value.text).value_or(0);
}

double ParsedOptions::Number(std::string_view name) const {
  const Value& value = Get(name);
  CHECK(value.spec->type == OptionType::kNumber);
  return ParseNumber(value.text).value_or(0);
}

const std::string& ParsedOptions::Text(std::string_view name) const {
  const Value& value = Get(name);
  CHECK(value.spec->type == OptionType::kText);
  return value.text;
}

std::vector<std::string> ParsedOptions::List(std::string_view name) const {
  const Value& value = Get(name);
  CHECK(value.spec->type == OptionType::kList);
  return value.list;
}

bool ParsedOptions::IsSet(std::string_view name) const {
  return Get(name).source != Source::kDefault;
}

Source ParsedOptions::SourceOf(std::string_view name) const { return Get(name).source; }

std::vector<std::string> ParsedOptions::ArgumentsFor(Command target) const {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : values_) {
    if (value.source != Source::kCommandLine || (value.spec->commands & target) == 0) continue;
    read_.insert(name);
    if (value.spec->type == OptionType::kBool) {
      arguments.push_back((value.text == "true" ? "--" : "--no-") + name);
      continue;
    }
    arguments.push_back("--" + name);
    if (value.spec->type == OptionType::kList)
      arguments.insert(arguments.end(), value.list.begin(), value.list.end());
    else
      arguments.push_back(value.text);
  }
  return arguments;
}

std::vector<std::string> ParsedOptions::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_)
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

// One pass over the arguments; holds what the steps share.
class OptionParser {
 public:
  OptionParser(Command command, std::span<const std::string> arguments,
               const Environment& environment)
      : arguments_(arguments), environment_(environment) {
    out_.command_ = command;
  }

  Result<ParsedOptions> Parse() {
    for (const OptionSpec* spec : OptionsOf(out_.command_)) {
      auto& value = out_.values_[std::string(spec->name)];
      value.spec = spec;
      value.text = spec->default_text;
      if (spec->type == OptionType::kList) value.list = Split(spec->default_text, ',');
    }
    TRY(ReadArguments());
    if (out_.help_wanted_ || out_.version_wanted_) return std::move(out_);
    TRY(ReadVariables());
    return std::move(out_);
  }

 private:
  Status ReadArguments() {
    for (next_ = 0; next_ < arguments_.size();) {
      const std::string& word = arguments_[next_++];
      if (word == "-h" || word == "--help") {
        out_.help_wanted_ = true;
      } else if (word == "--version") {
        out_.version_wanted_ = true;
      } else if (word.starts_with("-") && word.size() > 1) {
        TRY(ReadOption(word));
      } else {
        TRY(ReadPositional(word));
      }
    }
    return {};
  }

  Status ReadPositional(const std::string& word) {
    const CommandSpec& command = SpecOf(out_.command_);
    if (command.positional.empty())
      return Err(Code::kInvalidArgument,
                 "unexpected argument '{}': 'tandem {}' takes options only{}", word, command.name,
                 out_.command_ == kWorker ? ", write --model " + word : std::string());
    if (!out_.positional_.empty())
      return Err(Code::kInvalidArgument, "unexpected argument '{}': {} is already '{}'", word,
                 command.positional, out_.positional_);
    out_.positional_ = word;
    return {};
  }

  Status ReadOption(const std::string& word) {
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::optional<std::string> inline_value;
    if (equals != std::string::npos) inline_value = word.substr(equals + 1);
    name.erase(0, name.starts_with("--") ? 2 : 1);
    std::ranges::replace(name, '_', '-');  // vLLM allows --max_model_len
    bool negated = false;
    auto found = out_.values_.find(name);
    if (found == out_.values_.end() && name.starts_with("no-")) {
      found = out_.values_.find(name.substr(3));
      negated = found != out_.values_.end() && found->second.spec->type == OptionType::kBool;
      if (!negated) found = out_.values_.end();
    }
    if (found == out_.values_.end() || !word.starts_with("--")) return UnknownOption(word, name);
    ParsedOptions::Value& value = found->second;
    const std::string shown = "--" + name;
    if (value.spec->type == OptionType::kBool) {
      value.source = Source::kCommandLine;
      if (inline_value)
        return FieldErr(shown, "{} takes no value: write {} or --no-{}", shown, "--" + found->first,
                        found->first);
      value.text = negated ? "false" : "true";
      return {};
    }
    return ReadOptionValue(value, shown, inline_value);
  }

  Status ReadOptionValue(ParsedOptions::Value& value, const std::string& shown,
                         const std::optional<std::string>& inline_value) {
    std::vector<std::string> words;
    if (inline_value) words.push_back(*inline_value);
    const bool list = value.spec->type == OptionType::kList;
    // A value may start with one dash (-1), not with two. A list takes several words, but not where
    // the next one could be the positional: there the option is repeated instead.
    const bool positional_due =
        !SpecOf(out_.command_).positional.empty() && out_.positional_.empty();
    const bool many = list && !inline_value && !positional_due;
    while (next_ < arguments_.size() && (words.empty() || many) &&
           !arguments_[next_].starts_with("--"))
      words.push_back(arguments_[next_++]);
    if (words.empty())
      return FieldErr(shown, "{} needs a value: write {} {}", shown, shown, value.spec->value_name);
    if (!list) {
      value.source = Source::kCommandLine;
      value.text = words.front();
      return CheckValue(*value.spec, shown, value.text);
    }
    if (value.source != Source::kCommandLine) value.list.clear();
    value.source = Source::kCommandLine;
    for (const std::string& word : words)
      for (std::string& part : value.spec->choices.empty() ? std::vector{word} : Split(word, ',')) {
        TRY(CheckValue(*value.spec, shown, part));
        value.list.push_back(std::move(part));
      }
    return {};
  }

  Status ReadVariables() {
    for (auto& [name, value] : out_.values_) {
      if (value.spec->variable.empty() || value.source == Source::kCommandLine) continue;
      const auto text = environment_(value.spec->variable);
      if (!text || text->empty()) continue;
      const std::string where(value.spec->variable);
      value.source = Source::kVariable;
      if (value.spec->type == OptionType::kBool) {
        TRY(ReadBoolVariable(value, where, *text));
      } else if (value.spec->type == OptionType::kList) {
        value.list = Split(*text, ',');
        for (const std::string& part : value.list) TRY(CheckValue(*value.spec, where, part));
      } else {
        TRY(CheckValue(*value.spec, where, *text));
        value.text = *text;
      }
    }
    return {};
  }

  static Status ReadBoolVariable(ParsedOptions::Value& value, const std::string& where,
                                 const std::string& text) {
    const std::string word = LowerTrimmed(text);
    const bool on = IsOneOf(word, {"true", "1", "yes", "on"});
    if (!on && !IsOneOf(word, {"false", "0", "no", "off", ""}))
      return FieldErr(where, "{}: '{}' is neither true nor false: write true or false", where,
                      text);
    value.text = on ? "true" : "false";
    return {};
  }

  Status UnknownOption(const std::string& word, const std::string& name) {
    std::string hint;
    std::vector<std::string> negations;
    std::vector<std::string_view> names;
    for (const auto& [known, value] : out_.values_) {
      names.push_back(known);
      if (value.spec->type == OptionType::kBool) negations.push_back("no-" + known);
    }
    names.insert(names.end(), negations.begin(), negations.end());
    for (const OptionSpec& spec : Options())
      if (spec.name == name)
        for (const CommandSpec& command : Commands())
          if ((spec.commands & command.command) != 0 && hint.empty())
            hint = fmt::format(": it is an option of 'tandem {}'", command.name);
    const std::string_view near = Nearest(name, names);
    if (hint.empty() && !near.empty()) hint = fmt::format(": did you mean --{}?", near);
    const std::string_view command = SpecOf(out_.command_).name;
    return FieldErr(word, "unknown option {}{} ('tandem {} --help' lists them)",
                    word.substr(0, word.find('=')), hint, command);
  }

  std::span<const std::string> arguments_;
  const Environment& environment_;
  size_t next_ = 0;
  ParsedOptions out_;
};

Environment ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return {};
    return std::string(value);
  };
}

Result<ParsedOptions> ParseOptions(Command command, std::span<const std::string> arguments,
                                   const Environment& environment) {
  return OptionParser(command, arguments, environment).Parse();
}

}  // namespace tandem::apps

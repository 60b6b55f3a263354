// Reads a command line and the environment by the option table. The command line wins over a
// variable, a variable over the default.
#ifndef TANDEM_APPS_OPTIONS_H_
#define TANDEM_APPS_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/option_spec.h"
#include "base/result.h"

namespace tandem::apps {

enum class Source { kDefault, kVariable, kCommandLine };

// The options of one command, checked against their types, choices and ranges. Asking for an option
// that the command lacks, or as another type, is a programmer error.
class ParsedOptions {
 public:
  bool Bool(std::string_view name) const;
  int64_t Int(std::string_view name) const;  // kInt, kSize and kAutoSize, whose auto is -1
  double Number(std::string_view name) const;
  const std::string& Text(std::string_view name) const;
  std::vector<std::string> List(std::string_view name) const;
  bool IsSet(std::string_view name) const;  // on the command line or by its variable
  Source SourceOf(std::string_view name) const;

  Command command() const { return command_; }
  // The MODEL of serve and run; "" for the others.
  const std::string& positional() const { return positional_; }
  bool help_wanted() const { return help_wanted_; }
  bool version_wanted() const { return version_wanted_; }

  // The options given on the command line that `target` also has, as arguments for it.
  std::vector<std::string> ArgumentsFor(Command target) const;
  // Options that nobody has asked for yet: for the test that every flag is used.
  std::vector<std::string> Unread() const;

 private:
  friend class OptionParser;
  struct Value {
    const OptionSpec* spec = nullptr;
    Source source = Source::kDefault;
    std::string text;
    std::vector<std::string> list;
  };
  const Value& Get(std::string_view name) const;

  Command command_ = kFrontend;
  std::map<std::string, Value, std::less<>> values_;
  std::string positional_;
  bool help_wanted_ = false;
  bool version_wanted_ = false;
  mutable std::set<std::string, std::less<>> read_;
};

// Gives the value of a variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment ProcessEnvironment();

// `arguments` are those after the command's name. Errors name the option or variable, the value and
// what would do instead.
Result<ParsedOptions> ParseOptions(Command command, std::span<const std::string> arguments,
                                   const Environment& environment);

// "64", "2G", "10k", "25.6k" for kSize. Nothing if it is no whole number or does not fit.
std::optional<int64_t> ParseSize(std::string_view text);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_OPTIONS_H_

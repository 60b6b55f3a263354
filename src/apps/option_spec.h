// One declaration per option. The table feeds the parser, --help, docs/options.md and the way in
// which `serve` hands options on to its children, so that none of them can disagree.
#ifndef TANDEM_APPS_OPTION_SPEC_H_
#define TANDEM_APPS_OPTION_SPEC_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::apps {

// Subcommands, as bits: an option may belong to several.
enum Command : unsigned {
  kFrontend = 1,
  kWorker = 2,
  kServe = 4,
  kRun = 8,
};

enum class OptionType {
  kBool,  // --x, --no-x; in a variable true/1/yes/on
  kInt,   // decimal integer
  // Integer that may end in K, M, G (powers of 1024), or in k, m, g (powers of 1000), then with a
  // fraction: 32k, 25.6k, 32K.
  kSize,
  kAutoSize,  // the same, or "auto", also written -1
  kNumber,    // decimal fraction
  kText,
  kList,  // one or more words; in a variable separated by commas
};

struct OptionSpec {
  std::string_view name;           // without dashes: "http-port"
  std::string_view variable = "";  // "" if it has none
  OptionType type = OptionType::kText;
  std::string_view default_text = "";  // "" means unset
  std::string_view choices = "";       // separated by '|'; "" means any
  std::string_view value_name = "";    // what stands for the value in --help
  std::string_view group = "";
  unsigned commands = 0;
  std::string_view help = "";
  double minimum = std::numeric_limits<double>::lowest();
  double maximum = std::numeric_limits<double>::max();
  bool hidden = false;  // for tests: not in --help and docs/options.md
};

struct CommandSpec {
  Command command;
  std::string_view name;
  std::string_view alias;       // "" if none
  std::string_view positional;  // "MODEL" or ""
  std::string_view summary;     // one line
  std::string_view examples;    // shown by --help, indented by the renderer
};

std::span<const CommandSpec> Commands();
// Null if there is none of that name or alias.
const CommandSpec* FindCommand(std::string_view name);
const CommandSpec& SpecOf(Command command);

// All options in the order of --help.
std::span<const OptionSpec> Options();
std::vector<const OptionSpec*> OptionsOf(Command command);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_OPTION_SPEC_H_

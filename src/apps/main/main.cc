// tandem: one program, several processes. Chooses the subcommand and nothing else.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <cstdio>
#include <string>
#include <vector>

#include "apps/help.h"
#include "apps/nearest.h"
#include "apps/options.h"
#include "apps/process_commands.h"
#include "apps/run_command.h"
#include "apps/serve_command.h"
#include "apps/version.h"

namespace tandem::apps {
namespace {

constexpr int kExitUsage = 2;

int UnknownCommand(const std::string& word) {
  std::vector<std::string_view> names;
  for (const CommandSpec& command : Commands()) names.push_back(command.name);
  const std::string_view near = Nearest(word, names);
  fmt::print(stderr, "tandem: there is no command '{}'{}\n\n{}", word,
             near.empty() ? "" : fmt::format(": did you mean '{}'?", near), RenderOverview());
  return kExitUsage;
}

int Dispatch(const ParsedOptions& parsed) {
  switch (parsed.command()) {
    case kFrontend:
      return FrontendMain(parsed);
    case kWorker:
      return WorkerMain(parsed);
    case kServe:
      return ServeMain(parsed);
    case kRun:
      return RunMain(parsed);
  }
  return kExitUsage;
}

int Main(std::vector<std::string> arguments) {
  const std::string word = arguments.empty() ? "" : arguments.front();
  if (word == "--version") {
    fmt::print("tandem {}\n", Version());
    return 0;
  }
  if (word.empty() || word == "--help" || word == "-h" || word == "help") {
    fmt::print(word.empty() ? stderr : stdout, "{}", RenderOverview());
    return word.empty() ? kExitUsage : 0;
  }
  const CommandSpec* command = FindCommand(word);
  if (command == nullptr) return UnknownCommand(word);
  arguments.erase(arguments.begin());
  const auto parsed = ParseOptions(command->command, arguments, ProcessEnvironment());
  if (!parsed) {
    fmt::print(stderr, "tandem {}: {}\n", command->name, parsed.error().message);
    return kExitUsage;
  }
  if (parsed->help_wanted()) {
    fmt::print("{}", RenderHelp(command->command));
    return 0;
  }
  if (parsed->version_wanted()) {
    fmt::print("tandem {}\n", Version());
    return 0;
  }
  return Dispatch(*parsed);
}

}  // namespace
}  // namespace tandem::apps

int main(int argc, char** argv) {
  // Children are started through /proc/self/exe and would be listed as "exe".
  prctl(PR_SET_NAME, "tandem");
  return tandem::apps::Main(std::vector<std::string>(argv + 1, argv + argc));
}

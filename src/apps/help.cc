#include "apps/help.h"

#include <fmt/format.h>

#include <vector>

#include "apps/version.h"

namespace tandem::apps {
namespace {

constexpr size_t kColumns = 96;
constexpr size_t kTextColumn = 6;

// Breaks `text` at spaces and indents each line.
void AppendWrapped(std::string& out, std::string_view text, size_t indent) {
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > 0 && column + 1 + word.size() > kColumns) {
      out += '\n';
      column = 0;
    }
    if (column == 0) {
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  out += '\n';
}

void AppendIndented(std::string& out, std::string_view lines, std::string_view indent) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    out += fmt::format("{}{}\n", indent, lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
}

std::string Choices(const OptionSpec& spec) {
  std::string out;
  for (const char c : spec.choices) out += c == '|' ? std::string(", ") : std::string(1, c);
  return out;
}

std::string Signature(const OptionSpec& spec) {
  if (spec.type == OptionType::kBool) return fmt::format("--{}, --no-{}", spec.name, spec.name);
  return fmt::format("--{} {}{}", spec.name, spec.value_name,
                     spec.type == OptionType::kList ? " ..." : "");
}

std::string Details(const OptionSpec& spec) {
  std::vector<std::string> parts;
  if (!spec.choices.empty()) parts.push_back("one of " + Choices(spec));
  if (!spec.default_text.empty()) parts.push_back(fmt::format("default {}", spec.default_text));
  if (!spec.variable.empty()) parts.push_back(fmt::format("variable {}", spec.variable));
  return parts.empty() ? std::string() : fmt::format(" [{}]", fmt::join(parts, "; "));
}

}  // namespace

std::string RenderOverview() {
  std::string out = fmt::format(
      "tandem {}: serves language models with prefill and decode on separate workers.\n\n"
      "usage: tandem COMMAND [options]\n\ncommands:\n",
      Version());
  for (const CommandSpec& command : Commands())
    out +=
        fmt::format("  {:<22} {}\n",
                    fmt::format("{} {}{}", command.name, command.positional,
                                command.alias.empty() ? "" : fmt::format("(or {})", command.alias)),
                    command.summary);
  out +=
      "\nstart here:\n"
      "  tandem serve model.gguf                         serve a model at http://127.0.0.1:8000\n"
      "  tandem serve model.gguf --prefill 1 --decode 1  the same, prefill and decode apart\n"
      "  tandem run model.gguf                           chat in the terminal\n"
      "\n'tandem COMMAND --help' explains a command's options; 'tandem --version' prints the "
      "version.\nTANDEM_LOG (or DYN_LOG) sets the log level: trace, debug, info, warn, error, "
      "off.\n";
  return out;
}

std::string RenderHelp(Command command) {
  const CommandSpec& spec = SpecOf(command);
  std::string out = fmt::format("usage: tandem {} {}{}[options]\n\n{}\n", spec.name,
                                spec.positional, spec.positional.empty() ? "" : " ", spec.summary);
  if (!spec.positional.empty())
    out +=
        "MODEL is a .gguf file, a folder as on the Hugging Face hub, or a name there: org/name,\n"
        "org/name:Q4_K_M, org/name@revision. HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE "
        "hold.\n";
  out += "\nexamples:\n";
  AppendIndented(out, spec.examples, "  ");
  std::string_view group;
  for (const OptionSpec* option : OptionsOf(command)) {
    if (option->hidden) continue;
    if (option->group != group) out += fmt::format("\n{}:\n", group = option->group);
    out += fmt::format("  {}\n", Signature(*option));
    AppendWrapped(out, std::string(option->help) + Details(*option), kTextColumn);
  }
  out += "\nAn option on the command line wins over its variable, a variable over the default.\n";
  return out;
}

std::string RenderMarkdown() {
  std::string out =
      "# Options\n\n"
      "Made from the option table (src/apps/option_table.cc) by `apps_test`; run it with\n"
      "`TANDEM_UPDATE_DOCS=1` after changing the table. An option on the command line wins over "
      "its\n"
      "variable, a variable over the default. Boolean options have a `--no-` form.\n";
  for (const CommandSpec& command : Commands()) {
    out += fmt::format("\n## tandem {}{}{}\n\n{}\n\n```\n{}\n```\n\n", command.name,
                       command.positional.empty() ? "" : " ", command.positional, command.summary,
                       command.examples);
    out += "| option | variable | default | values | meaning |\n|---|---|---|---|---|\n";
    for (const OptionSpec* option : OptionsOf(command.command)) {
      if (option->hidden) continue;
      out += fmt::format("| `--{}` | {} | {} | {} | {} |\n", option->name,
                         option->variable.empty() ? "" : fmt::format("`{}`", option->variable),
                         option->default_text, Choices(*option), option->help);
    }
  }
  return out;
}

}  // namespace tandem::apps

// Texts made from the option table.
#ifndef TANDEM_APPS_HELP_H_
#define TANDEM_APPS_HELP_H_

#include <string>

#include "apps/option_spec.h"

namespace tandem::apps {

std::string RenderOverview();             // tandem --help
std::string RenderHelp(Command command);  // tandem COMMAND --help
std::string RenderMarkdown();             // docs/options.md

}  // namespace tandem::apps

#endif  // TANDEM_APPS_HELP_H_

// --chat-template and --custom-jinja-template.
#ifndef TANDEM_APPS_TEMPLATE_OPTION_H_
#define TANDEM_APPS_TEMPLATE_OPTION_H_

#include <string>

#include "apps/options.h"
#include "base/result.h"

namespace tandem::apps {

// The text of the chosen chat template; "" if the model's own is to be used. As in the reference, a
// --chat-template that is no file but holds a brace or a line break is the template itself, with
// the escapes \n, \t, \r, \\, \' and \" replaced.
Result<std::string> ReadTemplateOption(const ParsedOptions& parsed);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_TEMPLATE_OPTION_H_

// MODEL and --model: where the model is.
#ifndef TANDEM_APPS_MODEL_OPTION_H_
#define TANDEM_APPS_MODEL_OPTION_H_

#include <optional>

#include "apps/options.h"
#include "base/result.h"
#include "hub/resolve.h"

namespace tandem::apps {

// What a worker was told to load; nothing where it names no model. Downloads what has to be, says
// in the log how far it is, and blocks meanwhile.
Result<std::optional<hub::ResolvedModel>> ResolveModel(const ParsedOptions& parsed);

// The same for serve and run, before they start children: with a bar on the terminal. Ctrl-C ends
// the program, and the next start goes on where this one was.
Result<std::optional<hub::ResolvedModel>> ResolveModelForChildren(const ParsedOptions& parsed);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_MODEL_OPTION_H_

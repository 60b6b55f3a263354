#ifndef TANDEM_APPS_SERVE_COMMAND_H_
#define TANDEM_APPS_SERVE_COMMAND_H_

#include "apps/options.h"

namespace tandem::apps {

// Serves until SIGTERM or SIGINT; returns the exit code.
int ServeMain(const ParsedOptions& parsed);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_SERVE_COMMAND_H_

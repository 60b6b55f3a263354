#ifndef TANDEM_APPS_RUN_COMMAND_H_
#define TANDEM_APPS_RUN_COMMAND_H_

#include "apps/options.h"

namespace tandem::apps {

// Chats on stdin and stdout until the input ends; returns the exit code.
int RunMain(const ParsedOptions& parsed);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_RUN_COMMAND_H_

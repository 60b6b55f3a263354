// The two kinds of processes that serve: frontend and worker.
#ifndef TANDEM_APPS_PROCESS_COMMANDS_H_
#define TANDEM_APPS_PROCESS_COMMANDS_H_

#include "apps/options.h"

namespace tandem::apps {

// Both run until SIGTERM or SIGINT and return the exit code.
int FrontendMain(const ParsedOptions& parsed);
int WorkerMain(const ParsedOptions& parsed);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_PROCESS_COMMANDS_H_

// From parsed options to what a frontend or a worker understands.
#ifndef TANDEM_APPS_PROCESS_OPTIONS_H_
#define TANDEM_APPS_PROCESS_OPTIONS_H_

#include <memory>
#include <string>

#include "apps/options.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/discovery.h"
#include "engine/worker_options.h"
#include "frontend/options.h"
#include "rt/runtime.h"

namespace tandem::apps {

inline constexpr std::string_view kTransferConfigExample =
    R"({"kv_connector":"NixlConnector","kv_role":"kv_both"})";

frontend::FrontendOptions MakeFrontendOptions(const ParsedOptions& parsed);

// Values that are no JSON: a mistake of the command line (exit code 2), found before any rule.
Status CheckWorkerSyntax(const ParsedOptions& parsed);
// Rules that a combination breaks are errors here (exit code 1, printed as ValueError). Finds the
// model, and downloads it if need be.
Result<engine::WorkerOptions> MakeWorkerOptions(const ParsedOptions& parsed);

// Whether serve or run were told what to serve; only the mock engine needs no model.
Status CheckModelGiven(const ParsedOptions& parsed);

// ~/.cache/tandem or what --cache-dir says.
std::string CacheFolder(const ParsedOptions& parsed);

struct PlaneChoice {
  std::string requests;   // "tcp"
  std::string discovery;  // "file" or "mem"
  std::string folder;     // of "file"; empty: the default one
};
PlaneChoice MakePlaneChoice(const ParsedOptions& parsed);

Duration Seconds(double seconds);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_PROCESS_OPTIONS_H_

#include "apps/serve_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/process_options.h"

namespace tandem::apps {
namespace {

void Append(std::vector<std::string>& to, std::vector<std::string> more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The planes between the children are serve's own affair, whatever variables say. Set explicitly,
// so that those meant for a single process (DYN_SYSTEM_PORT and the like) do not give every child
// the same port or role.
std::vector<std::string> PrivateArguments(const std::string& discovery_folder) {
  return {"--discovery-backend", "file", "--discovery-path", discovery_folder,
          "--request-plane",     "tcp",  "--namespace",      "tandem-serve",
          "--status-fd",         "3"};
}

PlannedChild PlanFrontend(const ParsedOptions& parsed, const std::string& discovery_folder) {
  PlannedChild child;
  child.name = "frontend";
  child.spec.arguments = {"frontend"};
  Append(child.spec.arguments, PrivateArguments(discovery_folder));
  if (parsed.command() == kRun)
    Append(child.spec.arguments, {"--http-host", "127.0.0.1", "--http-port", "0"});
  Append(child.spec.arguments, parsed.ArgumentsFor(kFrontend));
  return child;
}

// What workers get of the options; the revision was used when the model was found.
std::vector<std::string> WorkerOptionsOf(const ParsedOptions& parsed) {
  std::vector<std::string> words = parsed.ArgumentsFor(kWorker);
  const auto revision = std::find(words.begin(), words.end(), "--revision");
  if (revision != words.end()) words.erase(revision, revision + 2);
  return words;
}

PlannedChild PlanWorker(const ParsedOptions& parsed, const std::string& discovery_folder,
                        const std::optional<hub::ResolvedModel>& model, const std::string& role,
                        const std::string& name, int64_t workers) {
  PlannedChild child;
  child.name = name;
  child.spec.arguments = {"worker"};
  auto& arguments = child.spec.arguments;
  Append(arguments, PrivateArguments(discovery_folder));
  Append(arguments, {"--no-is-prefill-worker", "--no-is-decode-worker", "--disaggregation-mode",
                     role, "--rpc-host", "127.0.0.1", "--rpc-port", "0", "--system-host",
                     "127.0.0.1", "--system-port", "0", "--side-channel-host", "127.0.0.1",
                     "--side-channel-port", "0", "--workers-on-host", std::to_string(workers)});
  if (model) Append(arguments, {"--model", model->path});
  if (model && model->from_hub && !parsed.IsSet("served-model-name"))
    Append(arguments, {"--served-model-name", model->name});
  const bool transfer_given = parsed.command() == kServe && parsed.IsSet("kv-transfer-config");
  if (role != "agg" && !transfer_given)
    Append(arguments, {"--kv-transfer-config", std::string(kTransferConfigExample)});
  Append(arguments, WorkerOptionsOf(parsed));
  child.spec.variables = {{"TANDEM_LOG_NAME", name}};
  return child;
}

}  // namespace

Result<ServePlan> MakeServePlan(const ParsedOptions& parsed, const std::string& discovery_folder,
                                const std::optional<hub::ResolvedModel>& model) {
  const bool serve = parsed.command() == kServe;
  const int64_t prefill = serve ? parsed.Int("prefill") : 0;
  const int64_t decode = serve ? parsed.Int("decode") : 0;
  if (prefill > 0 && decode == 0)
    return FieldErr("--decode",
                    "--prefill {} without decode workers would answer nothing: add --decode 1",
                    prefill);
  ServePlan plan;
  plan.children.push_back(PlanFrontend(parsed, discovery_folder));
  if (decode == 0) {
    plan.children.push_back(PlanWorker(parsed, discovery_folder, model, "agg", "worker", 1));
    plan.shape = "1 aggregated worker";
    return plan;
  }
  const int64_t workers = prefill + decode;
  for (int64_t i = 1; i <= prefill; ++i)
    plan.children.push_back(PlanWorker(parsed, discovery_folder, model, "prefill",
                                       fmt::format("prefill-{}", i), workers));
  for (int64_t i = 1; i <= decode; ++i)
    plan.children.push_back(PlanWorker(parsed, discovery_folder, model, "decode",
                                       fmt::format("decode-{}", i), workers));
  plan.shape = prefill > 0 ? fmt::format("{} prefill + {} decode", prefill, decode)
                           : fmt::format("{} decode", decode);
  plan.shape += workers == 1 ? " worker" : " workers";
  return plan;
}

}  // namespace tandem::apps

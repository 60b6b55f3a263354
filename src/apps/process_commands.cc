#include "apps/process_commands.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "apps/process_options.h"
#include "apps/status_channel.h"
#include "apps/version.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cluster/file_discovery.h"
#include "cluster/mem_discovery.h"
#include "engine/worker_service.h"
#include "frontend/frontend.h"
#include "rt/cancel.h"
#include "rt/real_runtime.h"

namespace tandem::apps {
namespace {

constexpr int kExitRule = 1;
constexpr int kExitUsage = 2;

int Fail(std::string_view prefix, const Error& error, int exit_code) {
  fmt::print(stderr, "{}{}\n", prefix, error.message);
  return exit_code;
}

// A process with its loop, its place in discovery and a stop token that signals fire. A second
// signal ends the process at once.
class Process {
 public:
  explicit Process(const ParsedOptions& parsed)
      : status_(static_cast<int>(parsed.Int("status-fd"))) {
    runtime_.HandleSignals([this](int) {
      if (stop_.Token().Cancelled()) _exit(130);
      LOG_INFO("stopping: a second signal ends at once");
      stop_.Cancel({Code::kCancelled, "the process was told to stop", {}});
    });
  }

  Status OpenDiscovery(const PlaneChoice& choice) {
    if (std::getenv("ETCD_ENDPOINTS") != nullptr)
      LOG_WARN("ETCD_ENDPOINTS is set, but this version knows no etcd: discovery is '{}'",
               choice.discovery);
    if (choice.discovery == "mem") {
      LOG_WARN("--discovery-backend mem: no other process will see this one");
      hub_ = std::make_unique<cluster::MemHub>(runtime_);
      discovery_ = hub_->Open(runtime_);
      return {};
    }
    const std::string folder =
        choice.folder.empty() ? cluster::DefaultDiscoveryFolder() : choice.folder;
    LOG_INFO("requests over {}; discovery by files in {}", choice.requests, folder);
    TRY_ASSIGN(discovery_, cluster::OpenFileDiscovery(runtime_, {.folder = folder}));
    return {};
  }

  // Runs the task that ends after Stop. Returns its status.
  Status Run(rt::Task<Status> task) {
    Status ended = Err(Code::kInternal, "the loop was stopped");
    runtime_.RunTask(Keep(std::move(task), ended));
    return ended;
  }

  rt::RealRuntime& runtime() { return runtime_; }
  cluster::Discovery& discovery() { return *discovery_; }
  Metrics& metrics() { return metrics_; }
  StatusWriter& status() { return status_; }
  // From now on the supervisor hears that the loop turns.
  void SayReady(std::string_view address) {
    status_.Ready(address);
    SayAliveLater();
  }
  rt::CancelToken stop() const { return stop_.Token(); }

 private:
  void SayAliveLater() {
    alive_ = runtime_.RunAt(runtime_.Now() + kAliveEvery, [this] {
      status_.Alive();
      SayAliveLater();
    });
  }
  static rt::Task<void> Keep(rt::Task<Status> task, Status& ended) {
    ended = co_await std::move(task);
  }

  StatusWriter status_;
  Metrics metrics_;
  rt::RealRuntime runtime_;
  rt::CancelSource stop_;
  std::unique_ptr<rt::Timer> alive_;
  std::unique_ptr<cluster::MemHub> hub_;
  std::unique_ptr<cluster::Discovery> discovery_;
};

}  // namespace

int FrontendMain(const ParsedOptions& parsed) {
  SetLogName("frontend");
  const frontend::FrontendOptions options = MakeFrontendOptions(parsed);
  if (auto valid = frontend::Validate(options); !valid)
    return Fail("tandem frontend: ", valid.error(), kExitUsage);
  Process process(parsed);
  if (auto opened = process.OpenDiscovery(MakePlaneChoice(parsed)); !opened)
    return Fail("tandem frontend: ", opened.error(), kExitRule);
  auto on_ready = [&process](const rt::Address& address) {
    LOG_INFO("tandem {} frontend listens on http://{}", Version(), address.ToString());
    process.SayReady(address.ToString());
  };
  const Status ended = process.Run(
      frontend::RunFrontend({process.runtime(), process.discovery(), process.metrics(), on_ready},
                            options, process.stop(), Seconds(parsed.Number("drain-timeout"))));
  return ended ? 0 : Fail("tandem frontend: ", ended.error(), kExitRule);
}

int WorkerMain(const ParsedOptions& parsed) {
  if (auto syntax = CheckWorkerSyntax(parsed); !syntax)
    return Fail("tandem worker: ", syntax.error(), kExitUsage);
  SetLogName("worker");
  auto options = MakeWorkerOptions(parsed);
  if (!options) return Fail("ValueError: ", options.error(), kExitRule);
  if (const char* name = std::getenv("TANDEM_LOG_NAME"))
    SetLogName(name);
  else
    SetLogName(engine::RoleName(options->role));
  Process process(parsed);
  if (auto opened = process.OpenDiscovery(MakePlaneChoice(parsed)); !opened)
    return Fail("tandem worker: ", opened.error(), kExitRule);
  auto on_progress = [&process](double fraction) { process.status().Load(fraction); };
  auto on_ready = [&process](const wire::Instance& instance) {
    LOG_INFO(
        "tandem {} worker {:016x} serves '{}' ({}) on {}{}", Version(), instance.id,
        instance.card.name, instance.card.role, instance.address,
        instance.system_address.empty() ? "" : ", system server on " + instance.system_address);
    process.SayReady(instance.system_address.empty() ? instance.address : instance.system_address);
  };
  const Status ended = process.Run(engine::RunWorker(
      {process.runtime(), process.discovery(), process.metrics(), on_progress, on_ready},
      *std::move(options), process.stop(), Seconds(parsed.Number("drain-timeout"))));
  return ended ? 0 : Fail("tandem worker: ", ended.error(), kExitRule);
}

}  // namespace tandem::apps

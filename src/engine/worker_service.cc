#include "engine/worker_service.h"

#include <deque>
#include <filesystem>

#include "base/log.h"
#include "engine/built_engine.h"
#include "engine/system_server.h"
#include "engine/worker_metrics.h"
#include "net/rpc_server.h"
#include "rt/event.h"

namespace tandem::engine {
namespace {

// Between the engine's sink and the stream of one request.
struct Answer {
  explicit Answer(rt::Runtime& runtime) : wake(runtime) {}
  // At most max_tokens pieces per choice; a reader that stalls is cancelled by the request plane.
  std::deque<wire::GenerateItem> items;
  std::optional<Status> done;
  rt::Signal wake;
};

// Puts `next` behind `last` if both can travel as one item.
bool Merge(wire::GenerateItem& last, wire::GenerateItem& next) {
  if (last.choice != next.choice || last.finish != wire::FinishReason::kNone) return false;
  last.tokens.insert(last.tokens.end(), next.tokens.begin(), next.tokens.end());
  std::move(next.logprobs.begin(), next.logprobs.end(), std::back_inserter(last.logprobs));
  last.finish = next.finish;
  last.stop_token = next.stop_token;
  last.kv_transfer_params = std::move(next.kv_transfer_params);
  return true;
}

std::string ServedName(const WorkerOptions& options, const ModelArtifacts& artifacts) {
  if (!options.served_name.empty()) return options.served_name;
  if (options.model_path.empty()) return artifacts.name;
  return std::filesystem::path(options.model_path).stem().string();
}

// The request plane of one worker.
class Service {
 public:
  Service(rt::Runtime& runtime, BuiltEngine built) : runtime_(runtime), built_(std::move(built)) {}

  void Mount(net::RpcServer& server) {
    server.Handle(std::string(wire::kMethodGenerate),
                  [this](net::RpcCall& call) { return Generate(call); });
    server.Handle(std::string(wire::kMethodRelease),
                  [this](net::RpcCall& call) { return Release(call); });
    server.Handle(std::string(wire::kMethodArtifact),
                  [this](net::RpcCall& call) { return SendArtifact(call); });
  }

  Engine& engine() { return *built_.engine; }
  const BuiltEngine& built() const { return built_; }

 private:
  rt::Task<Status> Generate(net::RpcCall& call);
  rt::Task<Status> Release(net::RpcCall& call);
  rt::Task<Status> SendArtifact(net::RpcCall& call);

  rt::Runtime& runtime_;
  BuiltEngine built_;
};

rt::Task<Status> Service::Generate(net::RpcCall& call) {
  auto request = wire::DecodeGenerateRequest(call.payload());
  if (!request) co_return std::unexpected(std::move(request).error());
  // Shared: the engine's sink may outlive this task (a connection that broke), and the other way.
  const auto answer = std::make_shared<Answer>(runtime_);
  built_.engine->Submit(
      *std::move(request), call.deadline(), call.token(),
      EngineSink{.on_item =
                     [answer](wire::GenerateItem item) {
                       if (answer->items.empty() || !Merge(answer->items.back(), item))
                         answer->items.push_back(std::move(item));
                       answer->wake.Notify();
                     },
                 .on_done =
                     [answer](Status status) {
                       answer->done = std::move(status);
                       answer->wake.Notify();
                     }});
  for (;;) {
    while (!answer->items.empty()) {
      const wire::GenerateItem item = std::move(answer->items.front());
      answer->items.pop_front();
      CO_TRY(co_await call.Send(wire::Encode(item)));
    }
    if (answer->done) co_return *answer->done;
    CO_TRY(co_await answer->wake.Wait(call.token()));
  }
}

rt::Task<Status> Service::Release(net::RpcCall& call) {
  CO_TRY_ASSIGN(const auto request, wire::DecodeReleaseRequest(call.payload()));
  built_.engine->Release(request.request_id);
  co_return Status();
}

rt::Task<Status> Service::SendArtifact(net::RpcCall& call) {
  CO_TRY_ASSIGN(const auto request, wire::DecodeArtifactRequest(call.payload()));
  const auto it = built_.artifacts.by_digest.find(request.digest);
  if (it == built_.artifacts.by_digest.end())
    co_return Err(Code::kNotFound, "this worker has no artefact with digest {}", request.digest);
  constexpr size_t kPieceBytes = 1u << 20;
  const auto all = std::as_bytes(std::span(it->second));
  for (size_t at = 0; at < all.size(); at += kPieceBytes) {
    const auto piece = all.subspan(at, std::min(kPieceBytes, all.size() - at));
    CO_TRY(co_await call.Send(wire::Bytes(piece.begin(), piece.end())));
  }
  co_return Status();
}

Result<std::string> AdvertisedHost(const WorkerOptions& options) {
  if (!options.advertised_host.empty()) return options.advertised_host;
  if (options.rpc_host == "0.0.0.0" || options.rpc_host == "::")
    return FieldErr("advertised-host",
                    "the request plane listens on every address ({}), so others need to be told "
                    "one of them: give the host's address to advertise",
                    options.rpc_host);
  return options.rpc_host;
}

wire::Instance MakeInstance(rt::Runtime& runtime, const WorkerOptions& options,
                            const BuiltEngine& built) {
  wire::Instance instance;
  do {
    instance.id = runtime.Random();
  } while (instance.id == 0);  // 0 means "none" to the router
  instance.ns = options.ns;
  instance.component = options.role == Role::kPrefill ? "prefill" : "backend";
  instance.endpoint = "generate";
  instance.started_unix_ms = runtime.UnixMillis();
  instance.card = built.card;
  instance.card.name = ServedName(options, built.artifacts);
  instance.card.aliases = options.aliases;
  instance.card.role = RoleName(options.role);
  return instance;
}

// Links the pages of the system server to a service that appears later and goes earlier.
struct Pages {
  Service* service = nullptr;
  net::RpcServer* rpc = nullptr;
  std::string model;
  bool registered = false;

  PlaneStats Planes() const {
    return rpc == nullptr ? PlaneStats{}
                          : PlaneStats{.rpc_streams = rpc->open_streams(),
                                       .rpc_connections = rpc->open_connections()};
  }
  EngineStats Engine() const {
    return service == nullptr ? EngineStats{} : service->engine().Stats();
  }
};

Result<std::unique_ptr<SystemServer>> StartPages(const WorkerEnvironment& environment,
                                                 const WorkerOptions& options, Pages& pages) {
  if (options.system_port < 0) return nullptr;
  Metrics& metrics = environment.metrics;
  return SystemServer::Start(
      environment.runtime,
      rt::Address{options.system_host, static_cast<uint16_t>(options.system_port)}, metrics,
      {.ready = [&pages] { return pages.registered; },
       .state = [&pages] { return StatsJson(pages.Engine(), pages.Planes()); },
       .before_metrics =
           [&pages, &metrics] {
             if (pages.service != nullptr)
               PublishStats(metrics, pages.model, pages.Engine(), pages.Planes());
           }});
}

}  // namespace

rt::Task<Status> RunWorker(WorkerEnvironment environment, WorkerOptions options,
                           rt::CancelToken stop, Duration drain) {
  rt::Runtime& runtime = environment.runtime;
  CO_TRY(Validate(options));
  CO_TRY_ASSIGN(const std::string host, AdvertisedHost(options));
  Pages pages;
  CO_TRY_ASSIGN(const auto system, StartPages(environment, options, pages));
  CO_TRY_ASSIGN(BuiltEngine built, co_await BuildEngine(environment, options));
  Service service(runtime, std::move(built));

  auto listener = runtime.network().Listen(rt::Address{options.rpc_host, options.rpc_port});
  if (!listener) {
    co_await service.engine().Stop();
    co_return Err(Code::kUnavailable, "the request plane cannot listen on {}:{}: {}",
                  options.rpc_host, options.rpc_port, listener.error().message);
  }
  net::RpcServer rpc(runtime, *std::move(listener));
  service.Mount(rpc);
  rpc.Start();

  wire::Instance instance = MakeInstance(runtime, options, service.built());
  instance.address = rt::Address{host, rpc.address().port}.ToString();
  if (system != nullptr) instance.system_address = system->address().ToString();
  pages.service = &service;
  pages.rpc = &rpc;
  pages.model = instance.card.name;

  Status outcome;
  auto registration = environment.discovery.Register(instance);
  if (registration) {
    pages.registered = true;
    LOG_INFO("serving {} as {} on {} (instance {:x})", instance.card.name, instance.card.role,
             instance.address, instance.id);
    if (environment.on_ready) environment.on_ready(instance);
    rt::Event stopped(runtime);
    const auto on_stop = stop.OnCancel([&stopped] { stopped.Set(); });
    static_cast<void>(co_await stopped.Wait());  // has no token, so it cannot fail
    registration->reset();
    pages.registered = false;
  } else {
    outcome = std::unexpected(registration.error());
  }
  co_await rpc.Stop(drain);
  co_await service.engine().Stop();
  if (system != nullptr) co_await system->Stop();
  co_return outcome;
}

}  // namespace tandem::engine

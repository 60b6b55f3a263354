#include "engine/worker_service.h"

#include <algorithm>
#include <optional>

#include "base/error_table.h"
#include "base/log.h"
#include "engine/generate_call.h"
#include "engine/loaded_engine.h"
#include "engine/system_server.h"
#include "engine/worker_metrics.h"
#include "net/rpc_server.h"
#include "rt/event.h"
#include "rt/host_address.h"

namespace tandem::engine {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// The request plane of one worker and what it counts.
class RequestPlane {
 public:
  RequestPlane(WorkerEnvironment& environment, const WorkerOptions& options, LoadedEngine& loaded,
               std::unique_ptr<rt::Listener> listener)
      : runtime_(environment.runtime),
        metrics_(environment.metrics),
        engine_(*loaded.engine),
        artifacts_(loaded.artifacts),
        labels_({{"dynamo_namespace", options.ns},
                 {"dynamo_component", options.role == Role::kPrefill ? "prefill" : "backend"},
                 {"dynamo_endpoint", std::string(wire::kMethodGenerate)}}),
        inflight_(metrics_.GetGauge("dynamo_component_inflight_requests",
                                    "Requests under way on this worker.", labels_)),
        requests_(metrics_.GetCounter("dynamo_component_requests_total",
                                      "Requests that this worker was sent.", labels_)),
        seconds_(metrics_.GetHistogram("dynamo_component_request_duration_seconds",
                                       "Time of a request on this worker.", LatencySecondsBounds(),
                                       labels_)),
        request_bytes_(metrics_.GetCounter("dynamo_component_request_bytes_total",
                                           "Bytes of requests.", labels_)),
        response_bytes_(metrics_.GetCounter("dynamo_component_response_bytes_total",
                                            "Bytes of answers.", labels_)),
        server_(environment.runtime, std::move(listener)) {
    server_.Handle(std::string(wire::kMethodGenerate),
                   [this](net::RpcCall& call) { return Generate(call); });
    server_.Handle(std::string(wire::kMethodRelease),
                   [this](net::RpcCall& call) { return Release(call); });
    server_.Handle(std::string(wire::kMethodArtifact),
                   [this](net::RpcCall& call) { return Artifact(call); });
    server_.Start();
  }

  net::RpcServer& server() { return server_; }

 private:
  rt::Task<Status> Generate(net::RpcCall& call) {
    const MonoTime start = runtime_.Now();
    requests_.Add();
    inflight_.Add(1);
    CallBytes bytes;
    Status status = co_await ServeGenerate(runtime_, engine_, call, bytes);
    inflight_.Add(-1);
    seconds_.Observe(ToSeconds(runtime_.Now() - start));
    request_bytes_.Add(bytes.request);
    response_bytes_.Add(bytes.response);
    if (!status) CountError(status.error().code);
    co_return status;
  }

  void CountError(Code code) {
    Labels labels = labels_;
    labels.emplace_back("error_type", RowOf(code).name);
    metrics_
        .GetCounter("dynamo_component_errors_total", "Requests that ended with an error.", labels)
        .Add();
    if (code == Code::kCancelled || code == Code::kDeadlineExceeded)
      metrics_
          .GetCounter("dynamo_component_cancellation_total",
                      "Requests whose client left or whose time ran out.", labels_)
          .Add();
  }

  rt::Task<Status> Release(net::RpcCall& call) {
    CO_TRY_ASSIGN(const auto request, wire::DecodeReleaseRequest(call.payload()));
    engine_.Release(request.request_id);
    co_return Status();
  }

  rt::Task<Status> Artifact(net::RpcCall& call) {
    CO_TRY_ASSIGN(const auto request, wire::DecodeArtifactRequest(call.payload()));
    const auto found = artifacts_.by_digest.find(request.digest);
    if (found == artifacts_.by_digest.end())
      co_return Err(Code::kNotFound, "no artefact has the digest '{}' here", request.digest);
    const auto bytes = std::as_bytes(std::span(found->second));
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      CO_TRY(co_await call.Send(wire::Bytes(piece.begin(), piece.end())));
    }
    co_return Status();
  }

  rt::Runtime& runtime_;
  Metrics& metrics_;
  Engine& engine_;
  const ModelArtifacts& artifacts_;
  const Labels labels_;
  Gauge& inflight_;
  Counter& requests_;
  Histogram& seconds_;
  Counter& request_bytes_;
  Counter& response_bytes_;
  net::RpcServer server_;
};

wire::Instance MakeInstance(rt::Runtime& runtime, const WorkerOptions& options,
                            const wire::ModelCard& card, uint16_t rpc_port,
                            const std::optional<SystemServer>& system) {
  wire::Instance instance;
  instance.id = runtime.Random();
  instance.ns = options.ns;
  instance.component = options.role == Role::kPrefill ? "prefill" : "backend";
  instance.endpoint = wire::kMethodGenerate;
  instance.address =
      rt::Address{rt::ReachableHost(options.advertised_host, options.rpc_host), rpc_port}
          .ToString();
  if (system)
    instance.system_address =
        rt::Address{rt::ReachableHost(options.advertised_host, options.system_host), system->port()}
            .ToString();
  instance.started_unix_ms = runtime.UnixMillis();
  instance.card = card;
  return instance;
}

rt::Task<Result<LoadedEngine>> LoadEngine(WorkerEnvironment& environment,
                                          const WorkerOptions& options) {
  if (options.engine == EngineKind::kMock)
    co_return co_await LoadMockEngine(environment.runtime, environment.metrics, options);
  co_return co_await LoadNativeEngine(environment.runtime, environment.metrics, options,
                                      environment.on_load_progress);
}

// From a loaded engine to the end of `stop` and the drain.
rt::Task<Status> Serve(WorkerEnvironment& environment, const WorkerOptions& options,
                       LoadedEngine& loaded, std::optional<SystemServer>& system,
                       rt::CancelToken stop, Duration drain) {
  auto listener =
      environment.runtime.network().Listen(rt::Address{options.rpc_host, options.rpc_port});
  if (!listener)
    co_return Err(listener.error().code,
                  "the request plane cannot listen on {}:{} (--rpc-host, "
                  "--rpc-port): {}",
                  options.rpc_host, options.rpc_port, listener.error().message);
  RequestPlane plane(environment, options, loaded, *std::move(listener));
  WorkerMetrics numbers(environment.metrics, loaded.card);
  const wire::Instance instance = MakeInstance(environment.runtime, options, loaded.card,
                                               plane.server().address().port, system);
  auto registration = environment.discovery.Register(instance);
  if (!registration) {
    co_await plane.server().Stop(Duration::zero());
    co_return std::unexpected(std::move(registration).error());
  }
  if (system)
    system->Attach({.engine = loaded.engine.get(),
                    .rpc = &plane.server(),
                    .numbers = &numbers,
                    .instance = &instance});
  if (environment.on_ready) environment.on_ready(instance);

  rt::Event stopped(environment.runtime);
  // An error only says that the token fired, which is what is waited for.
  if (const Status waited = co_await stopped.Wait(stop); !waited)
    LOG_INFO("worker stops: {}", waited.error().message);
  registration->reset();
  if (system) system->Drain();
  co_await plane.server().Stop(drain);
  if (system) system->Detach();
  co_return Status();
}

}  // namespace

rt::Task<Status> RunWorker(WorkerEnvironment environment, WorkerOptions options,
                           rt::CancelToken stop, Duration drain) {
  CO_TRY(Validate(options));
  options.advertised_host = rt::ReachableHost(options.advertised_host, options.rpc_host);
  if (options.advertised_side_channel_host.empty())
    options.advertised_side_channel_host = rt::ReachableHost("", options.side_channel_host);
  std::optional<SystemServer> system;
  if (options.system_port >= 0) {
    auto listener = environment.runtime.network().Listen(
        rt::Address{options.system_host, static_cast<uint16_t>(options.system_port)});
    if (!listener)
      co_return Err(listener.error().code,
                    "the system server cannot listen on {}:{} "
                    "(DYN_SYSTEM_PORT): {}",
                    options.system_host, options.system_port, listener.error().message);
    system.emplace(environment.runtime, environment.metrics, *std::move(listener));
  }
  auto loaded = co_await LoadEngine(environment, options);
  Status status;
  if (!loaded) {
    status = std::unexpected(std::move(loaded).error());
  } else {
    if (stop.Cancelled()) {
      LOG_INFO("worker stops before it served: {}", stop.Reason().message);
    } else {
      status = co_await Serve(environment, options, *loaded, system, std::move(stop), drain);
    }
    co_await loaded->engine->Stop();
  }
  if (system) co_await system->Stop();
  co_return status;
}

}  // namespace tandem::engine

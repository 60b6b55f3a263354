#include "frontend/frontend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "frontend/assets.h"
#include "frontend/error_body.h"
#include "frontend/frontend_metrics.h"
#include "frontend/generate_handler.h"
#include "frontend/pages.h"
#include "frontend/request_context.h"
#include "frontend/services.h"
#include "frontend/tokenize_handler.h"
#include "net/http_server.h"
#include "router/router.h"
#include "rt/event.h"

namespace tandem::frontend {
namespace {

constexpr std::string_view kModelsPrefix = "/v1/models/";

rt::Task<void> ServeChat(Services& services, net::HttpRequest request, net::HttpResponder& out) {
  return HandleGenerate(services, Endpoint::kChat, std::move(request), out);
}
rt::Task<void> ServeCompletion(Services& services, net::HttpRequest request,
                               net::HttpResponder& out) {
  return HandleGenerate(services, Endpoint::kCompletion, std::move(request), out);
}

class Server {
 public:
  Server(FrontendEnvironment& environment, const FrontendOptions& options,
         std::unique_ptr<router::Router> router)
      : environment_(environment),
        router_(std::move(router)),
        assets_(*router_, options.artifact_cache_bytes),
        frontend_metrics_(environment.metrics, options.metrics_prefix),
        services_{.runtime = environment.runtime,
                  .router = *router_,
                  .assets = assets_,
                  .metrics = frontend_metrics_,
                  .options = options} {
    router_->SetOnChange([this] { OnWorkersChanged(); });
  }

  rt::Task<void> Handle(net::HttpRequest request, net::HttpResponder& responder) {
    struct Guard {
      Gauge& gauge;
      ~Guard() { gauge.Add(-1); }
    };
    frontend_metrics_.http_requests().Add(1);
    const Guard guard{frontend_metrics_.http_requests()};
    for (const Post& post : kPosts) {
      if (request.path != post.path) continue;
      if (request.method != "POST")
        co_return co_await Refuse(request, responder, 405, "POST", "use POST");
      co_return co_await post.serve(services_, std::move(request), responder);
    }
    co_await Page(request, responder);
  }

  rt::Task<void> Stop() {
    co_await assets_.Stop();
    co_await router_->Stop();
  }

 private:
  struct Post {
    std::string_view path;
    rt::Task<void> (*serve)(Services&, net::HttpRequest, net::HttpResponder&);
  };
  static constexpr std::array kPosts = {
      Post{"/v1/chat/completions", ServeChat},
      Post{"/v1/completions", ServeCompletion},
      Post{"/tokenize", HandleTokenize},
      Post{"/detokenize", HandleDetokenize},
  };

  void OnWorkersChanged() {
    std::vector<std::pair<const wire::ModelCard*, bool>> models;
    for (const router::ModelGroup* group : router_->table().Models()) {
      models.emplace_back(&group->card, group->Servable());
      if (group->Servable()) assets_.Prefetch(group->card);
    }
    frontend_metrics_.ShowModels(models);
  }

  // Pages that only read state.
  rt::Task<void> Page(const net::HttpRequest& request, net::HttpResponder& responder) {
    const router::RouterTable& table = router_->table();
    std::optional<std::string> body;
    std::string type = "application/json";
    if (request.path == "/v1/models") {
      body = ModelsPage(table);
    } else if (request.path.starts_with(kModelsPrefix)) {
      body = ModelPage(table, std::string_view(request.path).substr(kModelsPrefix.size()));
    } else if (request.path == "/health") {
      body = HealthPage(table, environment_.runtime.Now());
    } else if (request.path == "/live") {
      body = R"({"status":"live","message":"the frontend is running"})";
    } else if (request.path == "/metrics") {
      body = environment_.metrics.Render();
      type = "text/plain; version=0.0.4; charset=utf-8";
    }
    if (!body) co_return co_await Refuse(request, responder, 404, {}, Missing(request.path));
    if (request.method != "GET" && request.method != "HEAD")
      co_return co_await Refuse(request, responder, 405, "GET", "use GET");
    (void)co_await responder.Respond(200, {{"content-type", std::move(type)}}, *std::move(body));
  }

  static std::string Missing(std::string_view path) {
    if (!path.starts_with(kModelsPrefix)) return "there is nothing at this path";
    return fmt::format("the model '{}' is not served here; GET /v1/models lists those that are",
                       path.substr(kModelsPrefix.size()));
  }

  rt::Task<void> Refuse(const net::HttpRequest& request, net::HttpResponder& responder, int status,
                        std::string_view allow, std::string_view remedy) {
    const Error error{status == 404 ? Code::kNotFound : Code::kInvalidArgument,
                      fmt::format("{} {}: {}", request.method, request.path, remedy),
                      {}};
    net::HttpHeaders headers = {{"content-type", "application/json"}};
    if (!allow.empty()) headers.Add("allow", std::string(allow));
    (void)co_await responder.Respond(status, std::move(headers), ErrorBody(error, status));
  }

  FrontendEnvironment& environment_;
  std::unique_ptr<router::Router> router_;
  AssetCache assets_;
  FrontendMetrics frontend_metrics_;
  Services services_;
};

}  // namespace

Status Validate(const FrontendOptions& options) {
  const auto positive = [](std::string_view flag, auto value) -> Status {
    if (value > decltype(value){}) return {};
    return FieldErr(flag, "{} must be greater than 0", flag);
  };
  TRY(positive("--request-timeout", options.request_timeout));
  TRY(positive("DYN_HTTP_BODY_LIMIT_MB", options.body_limit));
  TRY(positive("--max-inflight", options.max_inflight));
  TRY(positive("--max-connections", options.max_connections));
  TRY(router::MakePicker(options.router_mode, [] { return uint64_t{0}; }));
  const std::string& prefix = options.metrics_prefix;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (prefix.empty() || (prefix[0] >= '0' && prefix[0] <= '9') ||
      !std::all_of(prefix.begin(), prefix.end(), plain))
    return FieldErr("--metrics-prefix",
                    "--metrics-prefix is '{}'; use letters, digits and underscores", prefix);
  if (options.overload_status < 400 || options.overload_status > 599)
    return FieldErr("DYN_HTTP_OVERLOAD_STATUS_CODE",
                    "DYN_HTTP_OVERLOAD_STATUS_CODE is {}; use 400 to 599", options.overload_status);
  return {};
}

rt::Task<Status> RunFrontend(FrontendEnvironment environment, FrontendOptions options,
                             rt::CancelToken stop, Duration drain) {
  CO_TRY(Validate(options));
  rt::Runtime& runtime = environment.runtime;
  CO_TRY_ASSIGN(auto listener, runtime.network().Listen({options.host, options.port}));
  CO_TRY_ASSIGN(auto router,
                router::Router::Create(runtime, environment.discovery, environment.metrics,
                                       {.mode = options.router_mode,
                                        .ns = options.ns,
                                        .only_model = options.model_name,
                                        .enforce_disagg = options.enforce_disagg,
                                        .inhibit = options.worker_inhibit}));
  Server server(environment, options, std::move(router));
  net::HttpServerOptions http_options;
  http_options.max_body_bytes = options.body_limit;
  http_options.max_connections = options.max_connections;
  net::HttpServer http(
      runtime, std::move(listener),
      [&server](net::HttpRequest request, net::HttpResponder& responder) {
        return server.Handle(std::move(request), responder);
      },
      http_options);
  http.Start();
  LOG_INFO("serving HTTP at http://{}", http.address().ToString());
  if (environment.on_ready) environment.on_ready(http.address());

  rt::Event stopped(runtime);
  (void)co_await stopped.Wait(stop);
  LOG_INFO("stopping: {} requests under way", http.active_requests());
  co_await http.Stop(drain);
  co_await server.Stop();
  co_return Status();
}

}  // namespace tandem::frontend

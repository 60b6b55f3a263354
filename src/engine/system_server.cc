#include "engine/system_server.h"

#include "wire/json_writer.h"

namespace tandem::engine {

Result<std::unique_ptr<SystemServer>> SystemServer::Start(rt::Runtime& runtime, rt::Address listen,
                                                          Metrics& metrics, Sources sources) {
  auto listener = runtime.network().Listen(listen);
  if (!listener)
    return std::unexpected(Error{Code::kUnavailable,
                                 fmt::format("the system server cannot listen on {}: {}; give "
                                             "another DYN_SYSTEM_PORT (0: any free one)",
                                             listen.ToString(), listener.error().message),
                                 "DYN_SYSTEM_PORT"});
  std::unique_ptr<SystemServer> self(new SystemServer(runtime, metrics, std::move(sources)));
  SystemServer* const raw = self.get();  // outlives the server, which it owns
  constexpr size_t kBodyAtMost = 64u << 10;
  constexpr size_t kConnectionsAtMost = 256;
  net::HttpServerOptions options;
  options.max_body_bytes = kBodyAtMost;
  options.max_connections = kConnectionsAtMost;
  self->server_ = std::make_unique<net::HttpServer>(
      runtime, *std::move(listener),
      [raw](net::HttpRequest request, net::HttpResponder& out) {
        return raw->Answer(std::move(request), out);
      },
      options);
  self->server_->Start();
  return self;
}

std::string SystemServer::StatusBody(bool ready) const {
  const auto uptime = runtime_.Now() - start_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(uptime);
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("status").String(ready ? "ready" : "notready");
  json.Key("endpoints").BeginObject().Key("generate").String(ready ? "ready" : "notready");
  json.EndObject();
  json.Key("uptime").BeginObject();
  json.Key("secs").Int(int64_t{seconds.count()});
  json.Key("nanos").Int(int64_t{(uptime - seconds).count()});
  json.EndObject().EndObject();
  return out;
}

rt::Task<void> SystemServer::Answer(net::HttpRequest request, net::HttpResponder& out) {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  if (request.path == "/health") {
    const bool ready = sources_.ready();
    status = ready ? 200 : 503;
    body = StatusBody(ready);
  } else if (request.path == "/live") {
    body = StatusBody(sources_.ready());
  } else if (request.path == "/metrics") {
    type = "text/plain; version=0.0.4";
    sources_.before_metrics();
    body = metrics_.Render();
  } else if (request.path == "/debug/state") {
    body = sources_.state();
  } else {
    status = 404;
    wire::JsonWriter json(body);
    json.BeginObject().Key("error").BeginObject();
    json.Key("message").String("this server has /health, /live, /metrics and /debug/state");
    json.Key("type").String("not_found_error").Key("param").Null().Key("code").Int(404);
    json.EndObject().EndObject();
  }
  net::HttpHeaders headers;
  headers.Add("content-type", std::move(type));
  // A client that left before its answer needs none.
  static_cast<void>(co_await out.Respond(status, std::move(headers), std::move(body)));
}

}  // namespace tandem::engine

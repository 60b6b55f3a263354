#include "engine/system_server.h"

#include "wire/json_writer.h"

namespace tandem::engine {
namespace {

net::HttpHeaders Json() { return {{"content-type", "application/json"}}; }

void WriteStats(wire::JsonWriter& writer, const EngineStats& stats) {
  writer.BeginObject();
  writer.Key("running").Int(stats.running);
  writer.Key("waiting").Int(stats.waiting);
  writer.Key("waiting_for_kv").Int(stats.waiting_for_kv);
  writer.Key("leases").Int(stats.leases);
  writer.Key("pins").Int(stats.pins);
  writer.Key("remote_holds").Int(stats.remote_holds);
  writer.Key("transfer_connections").Int(stats.transfer_connections);
  writer.Key("blocks_total").Int(stats.blocks_total);
  writer.Key("blocks_free").Int(stats.blocks_free);
  writer.Key("blocks_cached").Int(stats.blocks_cached);
  writer.Key("preemptions").Int(stats.preemptions);
  writer.Key("steps").Int(stats.steps);
  writer.Key("stalls").Int(stats.stalls);
  writer.Key("evictions").Int(stats.evictions);
  writer.Key("max_rows_in_step").Int(stats.max_rows_in_step);
  writer.Key("prompt_tokens_computed").Int(stats.prompt_tokens_computed);
  writer.Key("prefix_hit_tokens").Int(stats.prefix_hit_tokens);
  writer.Key("prefix_query_tokens").Int(stats.prefix_query_tokens);
  writer.Key("generated_tokens").Int(stats.generated_tokens);
  writer.Key("pulls").Int(stats.pulls);
  writer.Key("pulled_bytes").Int(stats.pulled_bytes);
  writer.Key("leases_granted").Int(stats.leases_granted);
  writer.Key("leases_expired").Int(stats.leases_expired);
  writer.Key("fallbacks").BeginObject();
  for (const auto& [reason, count] : stats.fallbacks) writer.Key(reason).Int(count);
  writer.EndObject();
  writer.EndObject();
}

}  // namespace

SystemServer::SystemServer(rt::Runtime& runtime, Metrics& metrics,
                           std::unique_ptr<rt::Listener> listener)
    : runtime_(runtime),
      metrics_(metrics),
      start_(runtime.Now()),
      server_(runtime, std::move(listener),
              [this](net::HttpRequest request, net::HttpResponder& responder) {
                return Answer(std::move(request), responder);
              }) {
  server_.Start();
}

rt::Task<void> SystemServer::Stop() { return server_.Stop(Duration::zero()); }

// A failed Respond means that the client left; there is nothing more to do for it.
rt::Task<void> SystemServer::Answer(net::HttpRequest request, net::HttpResponder& responder) {
  const bool ready = subject_.engine != nullptr && !draining_;
  Status sent;
  if (request.method != "GET" && request.method != "HEAD") {
    sent = co_await responder.Respond(405, Json(), R"({"detail":"Method Not Allowed"})");
  } else if (request.path == "/health" || request.path == "/live") {
    sent = co_await responder.Respond(ready ? 200 : 503, Json(), HealthJson(ready));
  } else if (request.path == "/metrics") {
    if (subject_.numbers != nullptr) subject_.numbers->Update(subject_.engine->Stats());
    metrics_.GetGauge("dynamo_component_uptime_seconds", "Seconds since this worker started.")
        .Set(ToSeconds(runtime_.Now() - start_));
    sent = co_await responder.Respond(
        200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}}, metrics_.Render());
  } else if (request.path == "/debug/state") {
    sent = co_await responder.Respond(200, Json(), StateJson());
  } else {
    sent = co_await responder.Respond(404, Json(), R"({"detail":"Not Found"})");
  }
  static_cast<void>(sent);
}

std::string SystemServer::HealthJson(bool ready) const {
  const Duration uptime = runtime_.Now() - start_;
  std::string out;
  wire::JsonWriter writer(out);
  writer.BeginObject();
  writer.Key("status").String(ready ? "ready" : "notready");
  writer.Key("endpoints").BeginObject();
  if (ready) writer.Key(subject_.instance->endpoint).String("ready");
  writer.EndObject();
  writer.Key("uptime").BeginObject();
  writer.Key("secs").Int(int64_t{uptime / std::chrono::seconds(1)});
  writer.Key("nanos").Int(int64_t{(uptime % std::chrono::seconds(1)).count()});
  writer.EndObject();
  writer.EndObject();
  return out;
}

std::string SystemServer::StateJson() const {
  std::string out;
  wire::JsonWriter writer(out);
  writer.BeginObject();
  writer.Key("registered").Bool(subject_.engine != nullptr && !draining_);
  if (subject_.engine != nullptr) {
    writer.Key("instance").String(fmt::format("{:016x}", subject_.instance->id));
    writer.Key("role").String(subject_.instance->card.role);
    writer.Key("engine");
    WriteStats(writer, subject_.engine->Stats());
    writer.Key("rpc_streams").Int(int64_t(subject_.rpc->open_streams()));
    writer.Key("rpc_connections").Int(int64_t(subject_.rpc->open_connections()));
  }
  writer.Key("http_connections").Int(int64_t(server_.open_connections()));
  writer.EndObject();
  return out;
}

}  // namespace tandem::engine

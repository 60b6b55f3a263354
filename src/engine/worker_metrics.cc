#include "engine/worker_metrics.h"

#include <array>
#include <functional>

#include "wire/json_writer.h"

namespace tandem::engine {
namespace {

struct GaugeRow {
  const char* metric;
  const char* help;
  const char* json;
  int64_t EngineStats::* value;
};
constexpr std::array kGauges = {
    GaugeRow{"vllm:num_requests_running", "Sequences in the running batch.", "running",
             &EngineStats::running},
    GaugeRow{"vllm:num_requests_waiting", "Requests that wait to be scheduled.", "waiting",
             &EngineStats::waiting},
    GaugeRow{"tandem_requests_waiting_for_kv", "Decode requests whose KV is being pulled.",
             "waiting_for_kv", &EngineStats::waiting_for_kv},
    GaugeRow{"tandem_leases", "Leases that keep KV for decode workers.", "leases",
             &EngineStats::leases},
    GaugeRow{"tandem_pins", "Leased blocks' readers at work.", "pins", &EngineStats::pins},
    GaugeRow{"tandem_kv_blocks_total", "Blocks of the KV arena.", "blocks_total",
             &EngineStats::blocks_total},
    GaugeRow{"tandem_kv_blocks_free", "KV blocks without a user.", "blocks_free",
             &EngineStats::blocks_free},
    GaugeRow{"tandem_kv_blocks_cached", "Free KV blocks that a prompt may still hit.",
             "blocks_cached", &EngineStats::blocks_cached},
    GaugeRow{"tandem_remote_holds", "Leases of other workers kept alive from here.", "remote_holds",
             &EngineStats::remote_holds},
    GaugeRow{"tandem_transfer_connections", "Open side-channel connections, both directions.",
             "transfer_connections", &EngineStats::transfer_connections},
};

struct TotalRow {
  const char* metric;
  const char* help;
  const char* json;
  uint64_t EngineStats::* value;
};
constexpr std::array kTotals = {
    TotalRow{"vllm:num_preemptions_total", "Sequences preempted for lack of KV blocks.",
             "preemptions", &EngineStats::preemptions},
    TotalRow{"vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
             "prefix_hit_tokens", &EngineStats::prefix_hit_tokens},
    TotalRow{"vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
             "prefix_query_tokens", &EngineStats::prefix_query_tokens},
    TotalRow{"vllm:prompt_tokens_total", "Prompt tokens computed on this worker.",
             "prompt_tokens_computed", &EngineStats::prompt_tokens_computed},
    TotalRow{"vllm:generation_tokens_total", "Tokens generated.", "generated_tokens",
             &EngineStats::generated_tokens},
    TotalRow{"tandem_engine_steps_total", "Steps of the engine.", "steps", &EngineStats::steps},
    TotalRow{"tandem_engine_stalls_total", "Steps in which the oldest sequence waited for a block.",
             "stalls", &EngineStats::stalls},
    TotalRow{"tandem_kv_evictions_total", "Cached blocks given up for new content.", "evictions",
             &EngineStats::evictions},
    TotalRow{"tandem_kv_pulls_total", "Pulls of KV from other workers.", "pulls",
             &EngineStats::pulls},
    TotalRow{"tandem_kv_pulled_bytes_total", "Bytes of KV pulled from other workers.",
             "pulled_bytes", &EngineStats::pulled_bytes},
    TotalRow{"tandem_leases_granted_total", "Leases granted to prefill requests.", "leases_granted",
             &EngineStats::leases_granted},
    TotalRow{"tandem_leases_expired_total", "Leases that ended by time.", "leases_expired",
             &EngineStats::leases_expired},
};

// A total that is kept elsewhere: the counter catches up with it.
void CatchUp(Counter& counter, uint64_t total) {
  const uint64_t shown = counter.Value();
  if (total > shown) counter.Add(total - shown);
}

}  // namespace

void PublishStats(Metrics& metrics, const std::string& model, const EngineStats& stats,
                  const PlaneStats& planes) {
  const Labels labels = {{"model_name", model}};
  for (const auto& row : kGauges)
    metrics.GetGauge(row.metric, row.help, labels).Set(static_cast<double>(stats.*row.value));
  for (const auto& row : kTotals)
    CatchUp(metrics.GetCounter(row.metric, row.help, labels), stats.*row.value);
  if (stats.blocks_total > 0) {
    const double used =
        1.0 - static_cast<double>(stats.blocks_free) / static_cast<double>(stats.blocks_total);
    metrics.GetGauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", labels)
        .Set(used);
  }
  metrics.GetGauge("tandem_engine_rows_max", "Most sequences in one step so far.", labels)
      .Set(static_cast<double>(stats.max_rows_in_step));
  for (const auto& [reason, count] : stats.fallbacks) {
    Labels with_reason = labels;
    with_reason.emplace_back("reason", reason);
    CatchUp(metrics.GetCounter("tandem_kv_fallbacks_total",
                               "Prompts computed here because their KV could not be pulled.",
                               with_reason),
            count);
  }
  metrics.GetGauge("tandem_rpc_streams", "Requests open on the request plane.")
      .Set(static_cast<double>(planes.rpc_streams));
  metrics.GetGauge("tandem_rpc_connections", "Connections of the request plane.")
      .Set(static_cast<double>(planes.rpc_connections));
}

std::string StatsJson(const EngineStats& stats, const PlaneStats& planes) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject();
  for (const auto& row : kGauges) json.Key(row.json).Int(stats.*row.value);
  for (const auto& row : kTotals) json.Key(row.json).Int(stats.*row.value);
  json.Key("max_rows_in_step").Int(stats.max_rows_in_step);
  json.Key("fallbacks").BeginObject();
  for (const auto& [reason, count] : stats.fallbacks) json.Key(reason).Int(count);
  json.EndObject();
  json.Key("rpc_streams").Int(uint64_t{planes.rpc_streams});
  json.Key("rpc_connections").Int(uint64_t{planes.rpc_connections});
  json.EndObject();
  return out;
}

}  // namespace tandem::engine

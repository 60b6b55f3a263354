#include "engine/worker_metrics.h"

namespace tandem::engine {

WorkerMetrics::WorkerMetrics(Metrics& metrics, const wire::ModelCard& card)
    : metrics_(metrics), labels_({{"model_name", card.name}, {"engine", "0"}}) {
  Labels config = labels_;
  config.emplace_back("block_size", std::to_string(card.kv_block_size));
  config.emplace_back("num_gpu_blocks", std::to_string(card.total_kv_blocks));
  config.emplace_back("kv_cache_size_tokens",
                      std::to_string(card.total_kv_blocks * card.kv_block_size));
  metrics.GetGauge("vllm:cache_config_info", "Size of the KV cache, in labels.", config).Set(1);
}

void WorkerMetrics::Gauge(std::string_view name, std::string_view help, double value) {
  metrics_.GetGauge(name, help, labels_).Set(value);
}

void WorkerMetrics::Count(std::string_view name, std::string_view help, uint64_t value,
                          Labels more) {
  std::string key(name);
  for (const auto& [label, text] : more) key += "/" + text;
  Labels labels = labels_;
  labels.insert(labels.end(), more.begin(), more.end());
  Counter& counter = metrics_.GetCounter(name, help, labels);
  uint64_t& seen = seen_[key];
  if (value > seen) counter.Add(value - seen);
  seen = value;
}

void WorkerMetrics::Update(const EngineStats& stats) {
  Gauge("vllm:num_requests_running", "Sequences in the running batch.",
        static_cast<double>(stats.running));
  Gauge("vllm:num_requests_waiting", "Sequences that wait for a place.",
        static_cast<double>(stats.waiting));
  Gauge("tandem_engine_waiting_for_kv", "Sequences whose KV is being pulled.",
        static_cast<double>(stats.waiting_for_kv));
  const auto total = static_cast<double>(stats.blocks_total);
  Gauge("vllm:kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1.",
        total > 0 ? 1.0 - static_cast<double>(stats.blocks_free) / total : 0.0);
  Gauge("tandem_kv_blocks_cached", "Free KV blocks whose content a prompt may still hit.",
        static_cast<double>(stats.blocks_cached));
  Gauge("tandem_kv_leases", "Prompts kept for a decode worker.", static_cast<double>(stats.leases));
  Gauge("tandem_kv_pins", "Reads by decode workers under way.", static_cast<double>(stats.pins));
  Gauge("tandem_kv_remote_holds", "Leases of other workers kept alive.",
        static_cast<double>(stats.remote_holds));
  Gauge("tandem_kv_transfer_connections", "Side-channel connections, both directions.",
        static_cast<double>(stats.transfer_connections));
  Gauge("tandem_engine_max_rows_in_step", "Most sequences in one step so far.",
        static_cast<double>(stats.max_rows_in_step));

  Count("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
        stats.prefix_query_tokens);
  Count("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
        stats.prefix_hit_tokens);
  Count("vllm:prompt_tokens_total", "Prompt tokens computed.", stats.prompt_tokens_computed);
  Count("vllm:generation_tokens_total", "Tokens generated.", stats.generated_tokens);
  Count("vllm:num_preemptions_total", "Sequences preempted for want of KV blocks.",
        stats.preemptions);
  Count("tandem_engine_steps_total", "Steps.", stats.steps);
  Count("tandem_engine_stalls_total", "Steps in which the oldest sequence waited for a block.",
        stats.stalls);
  Count("tandem_kv_evictions_total", "Cached KV blocks given up for new content.", stats.evictions);
  Count("tandem_kv_leases_granted_total", "Leases granted.", stats.leases_granted);
  Count("vllm:nixl_num_kv_expired_reqs_total", "Leases that expired unread.", stats.leases_expired);
  for (const auto& [reason, count] : stats.fallbacks)
    Count("tandem_kv_fallbacks_total", "Prompts computed here because their KV did not come.",
          count, {{"reason", reason}});
}

}  // namespace tandem::engine

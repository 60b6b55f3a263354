#include "engine/driver.h"

namespace tandem::engine {

StepMetrics::StepMetrics(Metrics& metrics, const Labels& labels)
    : seconds(metrics.GetHistogram("tandem_engine_step_seconds", "Time of one engine step.",
                                   LatencySecondsBounds(), labels)),
      rows(metrics.GetHistogram("tandem_engine_step_rows", "Sequences in one engine step.",
                                {1, 2, 4, 8, 16, 32, 64, 128, 256}, labels)),
      tokens(metrics.GetHistogram("vllm:iteration_tokens_total", "Tokens computed in one step.",
                                  {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
                                  labels)),
      aborted_steps(metrics.GetCounter(
          "tandem_engine_aborted_steps_total",
          "Steps stopped between layers because every request in them had been cancelled.",
          labels)) {}

void StepMetrics::Observe(const StepPlan& plan, Duration took, bool aborted) {
  if (aborted) return aborted_steps.Add();
  seconds.Observe(ToSeconds(took));
  rows.Observe(static_cast<double>(plan.rows.size()));
  tokens.Observe(static_cast<double>(plan.tokens));
}

EngineStats StatsOf(const Scheduler& scheduler) {
  const SchedulerLoad load = scheduler.load();
  const SchedulerCounters& counters = scheduler.counters();
  const kv::BlockPoolStats pool = scheduler.pool().stats();
  EngineStats stats;
  stats.running = load.running;
  stats.waiting = load.waiting;
  stats.waiting_for_kv = load.waiting_for_kv + load.zombie_pulls;
  stats.blocks_total = pool.total;
  stats.blocks_free = pool.free;
  stats.blocks_cached = pool.cached;
  stats.preemptions = counters.preemptions;
  stats.steps = counters.steps;
  stats.stalls = counters.stalls;
  stats.evictions = pool.evictions;
  stats.max_rows_in_step = counters.max_rows_in_step;
  stats.prompt_tokens_computed = counters.prompt_tokens_computed;
  stats.prefix_hit_tokens = pool.hit_tokens;
  stats.prefix_query_tokens = pool.query_tokens;
  stats.generated_tokens = counters.generated_tokens;
  stats.pulls = counters.pulls;
  stats.pulled_bytes = counters.pulled_bytes;
  stats.fallbacks = counters.fallbacks;
  return stats;
}

}  // namespace tandem::engine

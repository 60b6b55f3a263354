#include "frontend/frontend_metrics.h"

#include <cmath>
#include <utility>

namespace tandem::frontend {
namespace {

double TwoDigits(double value) {
  const double scale = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / scale) * scale;
}

}  // namespace

std::vector<double> LogBounds(double min, double max, int count) {
  std::vector<double> bounds = {0};
  const double ratio = std::pow(max / min, 1.0 / (count - 2));
  double value = min;
  for (int i = 1; i < count; ++i, value *= ratio) {
    const double rounded = TwoDigits(value);
    if (rounded > bounds.back()) bounds.push_back(rounded);
  }
  return bounds;
}

FrontendMetrics::FrontendMetrics(Metrics& metrics, std::string prefix)
    : metrics_(metrics),
      prefix_(std::move(prefix)),
      http_requests_(metrics.GetGauge("tandem_frontend_http_requests",
                                      "HTTP requests under way, all routes")) {}

Histogram& FrontendMetrics::HistogramOf(std::string_view name, std::string_view help,
                                        std::vector<double> bounds, const std::string& model) {
  return metrics_.GetHistogram(Name(name), help, std::move(bounds), {{"model", model}});
}

Gauge& FrontendMetrics::GaugeOf(std::string_view name, std::string_view help,
                                const std::string& model) {
  return metrics_.GetGauge(Name(name), help, {{"model", model}});
}

ModelMetrics& FrontendMetrics::Of(const std::string& model) {
  const auto found = models_.find(model);
  if (found != models_.end()) return found->second;
  const Labels labels = {{"model", model}};
  return models_
      .emplace(model,
               ModelMetrics{
                   GaugeOf("inflight_requests", "Requests under way", model),
                   GaugeOf("active_requests", "Requests under way", model),
                   GaugeOf("queued_requests", "Requests without a first token", model),
                   HistogramOf("input_sequence_tokens", "Prompt tokens of a request",
                               LogBounds(50, 128000, 12), model),
                   HistogramOf("output_sequence_tokens", "Generated tokens of a request",
                               LogBounds(50, 32000, 10), model),
                   HistogramOf("cached_tokens", "Prompt tokens of a request found in a cache",
                               LogBounds(50, 128000, 12), model),
                   HistogramOf("request_duration_seconds", "Time of a request",
                               LogBounds(1, 512, 10), model),
                   HistogramOf("time_to_first_token_seconds", "Time to the first token",
                               LogBounds(0.001, 480, 18), model),
                   HistogramOf("inter_token_latency_seconds", "Time between tokens of a choice",
                               LogBounds(0.001, 80, 20), model),
                   metrics_.GetCounter(Name("output_tokens_total"), "Generated tokens", labels),
                   metrics_.GetCounter(Name("input_tokens_total"), "Prompt tokens", labels),
               })
      .first->second;
}

void FrontendMetrics::CountStarted(std::string_view model, std::string_view endpoint, bool stream) {
  metrics_
      .GetCounter(Name("requests_started_total"), "Requests that were accepted",
                  {{"endpoint", std::string(endpoint)},
                   {"model", std::string(model)},
                   {"request_type", stream ? "stream" : "unary"}})
      .Add();
}

void FrontendMetrics::CountEnded(std::string_view model, std::string_view endpoint, bool stream,
                                 const Error* error) {
  metrics_
      .GetCounter(Name("requests_total"), "Requests that ended",
                  {{"endpoint", std::string(endpoint)},
                   {"error_type", error == nullptr ? "" : std::string(CodeName(error->code))},
                   {"model", std::string(model)},
                   {"request_type", stream ? "stream" : "unary"},
                   {"status", error == nullptr ? "success" : "error"}})
      .Add();
}

void FrontendMetrics::CountDisconnect() {
  metrics_.GetGauge(Name("disconnected_clients"), "Clients that went away before their answer")
      .Add(1);
}

void FrontendMetrics::ShowCard(const wire::ModelCard& card, bool ready) {
  const auto show = [&](std::string_view name, std::string_view help, int64_t value) {
    GaugeOf(name, help, card.name).Set(static_cast<double>(value));
  };
  show("model_context_length", "Tokens of the model's context", card.max_model_len);
  show("model_kv_cache_block_size", "Tokens of a KV block", card.kv_block_size);
  show("model_total_kv_blocks", "KV blocks of a worker", card.total_kv_blocks);
  show("model_max_num_seqs", "Sequences that a worker runs together", card.max_num_seqs);
  show("model_max_num_batched_tokens", "Tokens of a worker's step", card.max_num_batched_tokens);
  show("model_ready", "1 while the model can be served", ready ? 1 : 0);
}

}  // namespace tandem::frontend

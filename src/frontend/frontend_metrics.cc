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

std::string_view EndpointName(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "chat_completions" : "completions";
}

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
  ModelMetrics made{
      .inflight = GaugeOf("inflight_requests", "Requests under way", model),
      .active = GaugeOf("active_requests", "Requests under way", model),
      .queued = GaugeOf("queued_requests", "Requests without a first token", model),
      .input_tokens = HistogramOf("input_sequence_tokens", "Prompt tokens of a request",
                                  LogBounds(50, 128000, 12), model),
      .output_tokens = HistogramOf("output_sequence_tokens", "Generated tokens of a request",
                                   LogBounds(50, 32000, 10), model),
      .cached_tokens = HistogramOf("cached_tokens", "Prompt tokens of a request found in a cache",
                                   LogBounds(50, 128000, 12), model),
      .duration = HistogramOf("request_duration_seconds", "Time of a request",
                              LogBounds(1, 512, 10), model),
      .ttft = HistogramOf("time_to_first_token_seconds", "Time to the first token",
                          LogBounds(0.001, 480, 18), model),
      .itl = HistogramOf("inter_token_latency_seconds", "Time between tokens of a choice",
                         LogBounds(0.001, 80, 20), model),
      .output_tokens_total =
          metrics_.GetCounter(Name("output_tokens_total"), "Generated tokens", labels),
      .input_tokens_total =
          metrics_.GetCounter(Name("input_tokens_total"), "Prompt tokens", labels),
  };
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletion}) {
    for (const bool stream : {false, true}) {
      const size_t index = ModelMetrics::Index(endpoint, stream);
      made.succeeded[index] = &Ended(model, endpoint, stream, "");
      made.started[index] =
          &metrics_.GetCounter(Name("requests_started_total"), "Requests that were accepted",
                               {{"endpoint", std::string(EndpointName(endpoint))},
                                {"model", model},
                                {"request_type", stream ? "stream" : "unary"}});
    }
  }
  return models_.emplace(model, made).first->second;
}

Counter& FrontendMetrics::Ended(std::string_view model, Endpoint endpoint, bool stream,
                                std::string_view error) {
  return metrics_.GetCounter(Name("requests_total"), "Requests that ended",
                             {{"endpoint", std::string(EndpointName(endpoint))},
                              {"error_type", std::string(error)},
                              {"model", std::string(model)},
                              {"request_type", stream ? "stream" : "unary"},
                              {"status", error.empty() ? "success" : "error"}});
}

void FrontendMetrics::CountFailed(std::string_view model, Endpoint endpoint, bool stream,
                                  const Error& error) {
  Ended(model, endpoint, stream, CodeName(error.code)).Add();
}

void FrontendMetrics::CountDisconnect() {
  metrics_.GetGauge(Name("disconnected_clients"), "Clients that went away before their answer")
      .Add(1);
}

void FrontendMetrics::ShowModels(
    const std::vector<std::pair<const wire::ModelCard*, bool>>& models) {
  for (const auto& [name, series] : models_) ShowReady(name, false);
  for (const auto& [card, ready] : models) {
    Of(card->name);  // its series exist, at zero, before the first request
    ShowCard(*card);
    ShowReady(card->name, ready);
  }
}

void FrontendMetrics::ShowReady(const std::string& model, bool ready) {
  GaugeOf("model_ready", "1 while the model can be served", model).Set(ready ? 1 : 0);
}

void FrontendMetrics::ShowCard(const wire::ModelCard& card) {
  const auto show = [&](std::string_view name, std::string_view help, int64_t value) {
    GaugeOf(name, help, card.name).Set(static_cast<double>(value));
  };
  show("model_context_length", "Tokens of the model's context", card.max_model_len);
  show("model_kv_cache_block_size", "Tokens of a KV block", card.kv_block_size);
  show("model_total_kv_blocks", "KV blocks of a worker", card.total_kv_blocks);
  show("model_max_num_seqs", "Sequences that a worker runs together", card.max_num_seqs);
  show("model_max_num_batched_tokens", "Tokens of a worker's step", card.max_num_batched_tokens);
}

}  // namespace tandem::frontend

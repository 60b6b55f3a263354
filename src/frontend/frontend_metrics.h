// Metrics of a frontend, under the reference's names. Loop thread only.
#ifndef TANDEM_FRONTEND_FRONTEND_METRICS_H_
#define TANDEM_FRONTEND_FRONTEND_METRICS_H_

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "wire/messages.h"

namespace tandem::frontend {

enum class Endpoint : uint8_t { kChat, kCompletion };
std::string_view EndpointName(Endpoint endpoint);

// Series of one model, found once: a look-up by labels costs microseconds.
struct ModelMetrics {
  // By endpoint and stream.
  std::array<Counter*, 4> started{};
  std::array<Counter*, 4> succeeded{};
  static size_t Index(Endpoint endpoint, bool stream) {
    return 2 * static_cast<size_t>(endpoint) + (stream ? 1 : 0);
  }

  Gauge& inflight;
  Gauge& active;
  Gauge& queued;
  Histogram& input_tokens;
  Histogram& output_tokens;
  Histogram& cached_tokens;
  Histogram& duration;
  Histogram& ttft;
  Histogram& itl;
  Counter& output_tokens_total;
  Counter& input_tokens_total;
};

class FrontendMetrics {
 public:
  // `metrics` outlives this.
  FrontendMetrics(Metrics& metrics, std::string prefix);

  // Only for models that exist: their names become labels.
  ModelMetrics& Of(const std::string& model);
  // Requests that failed. `model` is empty if it is not known to exist.
  void CountFailed(std::string_view model, Endpoint endpoint, bool stream, const Error& error);
  void CountDisconnect();
  // The models that are known now, with whether they can be served.
  void ShowModels(const std::vector<std::pair<const wire::ModelCard*, bool>>& models);
  Gauge& http_requests() { return http_requests_; }

 private:
  Histogram& HistogramOf(std::string_view name, std::string_view help, std::vector<double> bounds,
                         const std::string& model);
  void ShowCard(const wire::ModelCard& card);
  void ShowReady(const std::string& model, bool ready);
  Counter& Ended(std::string_view model, Endpoint endpoint, bool stream, std::string_view error);
  Gauge& GaugeOf(std::string_view name, std::string_view help, const std::string& model);
  std::string Name(std::string_view name) const { return prefix_ + "_" + std::string(name); }

  Metrics& metrics_;
  const std::string prefix_;
  Gauge& http_requests_;
  std::map<std::string, ModelMetrics> models_;
};

// 0, then `count` - 1 values from min to max, evenly spaced in the logarithm, two digits.
std::vector<double> LogBounds(double min, double max, int count);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_FRONTEND_METRICS_H_

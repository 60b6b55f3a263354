// Metrics in Prometheus' text format. Families are registered once at start and live as long as
// the registry; recording is a relaxed atomic operation, safe from any thread.
#ifndef TANDEM_BASE_METRICS_H_
#define TANDEM_BASE_METRICS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(double v) { value_.store(v, std::memory_order_relaxed); }
  void Add(double d) { value_.fetch_add(d, std::memory_order_relaxed); }
  double Value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds);  // ascending; +Inf is added
  void Observe(double v);
  void Render(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> buckets_;
  std::atomic<double> sum_{0};
};

// 0.001 .. 60 s, about four buckets a decade: times to first token, request times.
std::vector<double> LatencySecondsBounds();
// 0.0001 .. 10 s: copies of KV, which take well under a millisecond within one host.
std::vector<double> TransferSecondsBounds();

class Metrics {
 public:
  // The same name and labels give the same object. A name has one kind; `help` of the first call
  // is the one shown. References stay valid for the registry's life. At most kMaxSeries per
  // name; further label sets share one series labelled overflow="true".
  Counter& GetCounter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge& GetGauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& GetHistogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                          const Labels& labels = {});
  // Called during Render, to set gauges that mirror state kept elsewhere.
  void OnRender(std::function<void()> refresh);
  std::string Render() const;

  static constexpr size_t kMaxSeries = 1000;

 private:
  struct Family;
  Family& FamilyOf(std::string_view name, std::string_view help, std::string_view kind);

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>, std::less<>> families_;
  std::vector<std::function<void()>> refreshers_;

 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
};

}  // namespace tandem

#endif  // TANDEM_BASE_METRICS_H_

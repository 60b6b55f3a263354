#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

std::string RenderLabels(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out.push_back(',');
    out += name;
    out += "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') out.push_back('\\');
      if (c == '\n') {
        out += "\\n";
      } else {
        out.push_back(c);
      }
    }
    out.push_back('"');
  }
  return out;
}

std::string Braced(std::string_view labels) {
  return labels.empty() ? std::string() : fmt::format("{{{}}}", labels);
}

}  // namespace

struct Metrics::Family {
  std::string help;
  std::string kind;
  std::map<std::string, std::unique_ptr<Counter>> counters;
  std::map<std::string, std::unique_ptr<Gauge>> gauges;
  std::map<std::string, std::unique_ptr<Histogram>> histograms;
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds_(std::move(upper_bounds)), buckets_(bounds_.size() + 1) {
  CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::Observe(double v) {
  const auto i = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  buckets_[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(v, std::memory_order_relaxed);
}

void Histogram::Render(std::string& out, std::string_view name, std::string_view labels) const {
  const std::string prefix = labels.empty() ? std::string() : fmt::format("{},", labels);
  uint64_t total = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    total += buckets_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, prefix, bound, total);
  }
  out += fmt::format("{}_sum{} {}\n", name, Braced(labels), sum_.load(std::memory_order_relaxed));
  out += fmt::format("{}_count{} {}\n", name, Braced(labels), total);
}

std::vector<double> LatencySecondsBounds() {
  return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
}

std::vector<double> TransferSecondsBounds() {
  return {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
          0.05,   0.1,    0.2,    0.5,   1,     2,     5,    10};
}

Metrics::Family& Metrics::FamilyOf(std::string_view name, std::string_view help,
                                   std::string_view kind) {
  auto it = families_.find(name);
  if (it == families_.end()) {
    it = families_.emplace(std::string(name), std::make_unique<Family>()).first;
    it->second->help = help;
    it->second->kind = kind;
  }
  CHECK(it->second->kind == kind);
  return *it->second;
}

namespace {

template <class T, class Make>
T& FindOrMake(std::map<std::string, std::unique_ptr<T>>& series, const Labels& labels, Make make) {
  std::string key = RenderLabels(labels);
  if (!series.contains(key) && series.size() >= Metrics::kMaxSeries) key = "overflow=\"true\"";
  auto& slot = series[key];
  if (slot == nullptr) slot = make();
  return *slot;
}

}  // namespace

Counter& Metrics::GetCounter(std::string_view name, std::string_view help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  return FindOrMake(FamilyOf(name, help, "counter").counters, labels,
                    [] { return std::make_unique<Counter>(); });
}

Gauge& Metrics::GetGauge(std::string_view name, std::string_view help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  return FindOrMake(FamilyOf(name, help, "gauge").gauges, labels,
                    [] { return std::make_unique<Gauge>(); });
}

Histogram& Metrics::GetHistogram(std::string_view name, std::string_view help,
                                 std::vector<double> bounds, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  return FindOrMake(FamilyOf(name, help, "histogram").histograms, labels,
                    [&] { return std::make_unique<Histogram>(std::move(bounds)); });
}

void Metrics::OnRender(std::function<void()> refresh) {
  const std::lock_guard lock(mutex_);
  refreshers_.push_back(std::move(refresh));
}

std::string Metrics::Render() const {
  std::vector<std::function<void()>> refreshers;
  {
    const std::lock_guard lock(mutex_);
    refreshers = refreshers_;
  }
  for (const auto& refresh : refreshers) refresh();

  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family->help, name, family->kind);
    for (const auto& [labels, c] : family->counters)
      out += fmt::format("{}{} {}\n", name, Braced(labels), c->Value());
    for (const auto& [labels, g] : family->gauges)
      out += fmt::format("{}{} {}\n", name, Braced(labels), g->Value());
    for (const auto& [labels, h] : family->histograms) h->Render(out, name, labels);
  }
  return out;
}

}  // namespace tandem

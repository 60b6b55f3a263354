#include "apps/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tandem::apps {
namespace {

constexpr int kBarWidth = 30;
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string RenderBar(std::string_view what, double fraction) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(fraction * kBarWidth);
  return fmt::format("[{}{}] {:3.0f} % {}", std::string(static_cast<size_t>(full), '#'),
                     std::string(static_cast<size_t>(kBarWidth - full), '.'), fraction * 100, what);
}

void Progress::Show(std::string_view what, double fraction) {
  if (terminal_) {
    const std::string bar = RenderBar(what, fraction);
    if (bar == bar_) return;
    bar_ = bar;
    fmt::print(stderr, "{}{}", kEraseLine, bar_);
    std::fflush(stderr);
    return;
  }
  const int tenth = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 10);
  if (tenth == last_tenth_) return;
  last_tenth_ = tenth;
  fmt::print(stderr, "{}: {} %\n", what, tenth * 10);
}

void Progress::Line(std::string_view text) {
  if (bar_.empty())
    fmt::print(stderr, "{}\n", text);
  else
    fmt::print(stderr, "{}{}\n{}", kEraseLine, text, bar_);
  std::fflush(stderr);
}

void Progress::Clear() {
  if (bar_.empty()) return;
  bar_.clear();
  fmt::print(stderr, "{}", kEraseLine);
  std::fflush(stderr);
}

}  // namespace tandem::apps

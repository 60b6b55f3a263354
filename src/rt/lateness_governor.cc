#include "rt/lateness_governor.h"

#include <algorithm>

namespace tandem::rt {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(20);
constexpr Duration kFirstHold = std::chrono::milliseconds(250);
constexpr Duration kLongestHold = std::chrono::seconds(4);

}  // namespace

int LatenessGovernor::Limit(MonoTime now) {
  if (limit_ < max_ && now >= hold_until_) {
    limit_ = max_;
    window_took_ = window_lost_ = Duration(0);
    window_late_ = 0;
  }
  return limit_;
}

void LatenessGovernor::Report(MonoTime now, int threads, Duration took, Duration lost,
                              int late_members) {
  // Regions that the core board made smaller say nothing about this limit.
  if (threads != limit_ || threads < 2) return;
  window_took_ += took;
  window_lost_ += lost;
  window_late_ = std::max(window_late_, late_members);
  if (window_took_ < kWindow) return;
  if (TooLong(threads, window_took_, window_lost_)) {
    if (limit_ == max_) hold_ = hold_.count() == 0 ? kFirstHold : std::min(hold_ * 2, kLongestHold);
    limit_ = std::max(1, limit_ - std::max(1, window_late_));
    hold_until_ = now + hold_;
  } else if (limit_ == max_) {
    hold_ = Duration(0);
  }
  window_took_ = window_lost_ = Duration(0);
  window_late_ = 0;
}

}  // namespace tandem::rt

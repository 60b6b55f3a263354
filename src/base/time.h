// Points and spans of time. Only rt reads a clock; everyone else is handed values of these types.
#ifndef TANDEM_BASE_TIME_H_
#define TANDEM_BASE_TIME_H_

#include <chrono>

namespace tandem {

using Duration = std::chrono::nanoseconds;

// Monotonic time of a runtime, real or simulated. Not comparable between processes: deadlines
// cross the wire as remaining milliseconds.
struct MonoClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonoClock>;
  static constexpr bool is_steady = true;
};
using MonoTime = MonoClock::time_point;

inline constexpr MonoTime kNever = MonoTime::max();

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline int64_t ToMillis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace tandem

#endif  // TANDEM_BASE_TIME_H_

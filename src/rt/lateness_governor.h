// Decides how many threads a region gets on a machine that others use too. A member that loses its
// core in the middle of a region makes all the others wait, so fewer threads are faster then.
#ifndef TANDEM_RT_LATENESS_GOVERNOR_H_
#define TANDEM_RT_LATENESS_GOVERNOR_H_

#include "base/time.h"

namespace tandem::rt {

// Pure: no clock of its own. After each window of measured regions in which a member was missing
// for so long that fewer threads would do better, it takes threads away; after a hold, which
// doubles up to 4 s while nothing gets better, it tries all of them again for one window.
class LatenessGovernor {
 public:
  // Whether a team of `threads` that waits for `lost` out of `took` is slower than one without the
  // late member. Break-even is at 1 / threads where speed is proportional to threads, which memory
  // bandwidth keeps it from; hence 0.7 of that.
  static bool TooLong(int threads, Duration took, Duration lost) {
    return lost * threads * 10 > took * 7;
  }

  explicit LatenessGovernor(int max_threads) : max_(max_threads), limit_(max_threads) {}

  // How many threads the next region should have at most.
  int Limit(MonoTime now);
  // What a region of `threads` threads saw: how long it took, the most time that one member was
  // without its core, and how many members were so for TooLong.
  void Report(MonoTime now, int threads, Duration took, Duration lost, int late_members);

 private:
  int max_;
  int limit_;
  Duration hold_{0};
  MonoTime hold_until_{};
  Duration window_took_{0};
  Duration window_lost_{0};
  int window_late_ = 0;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_LATENESS_GOVERNOR_H_

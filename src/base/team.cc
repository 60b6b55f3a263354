#include "base/team.h"

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {

void TeamMember::Relax(uint32_t spins) {
  constexpr uint32_t kSpinsBeforeYield = 2000;
  if (spins > kSpinsBeforeYield) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  _mm_pause();
#endif
}

void FlushDenormalsOnThisThread() {
#if defined(__x86_64__)
  constexpr unsigned int kFtzAndDaz = 0x8040;
  _mm_setcsr(_mm_getcsr() | kFtzAndDaz);
#endif
}

}  // namespace tandem

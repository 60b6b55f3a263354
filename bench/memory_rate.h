// The clock of the benchmarks, and what memory gives.
#ifndef TANDEM_BENCH_MEMORY_RATE_H_
#define TANDEM_BENCH_MEMORY_RATE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/team.h"
#include "model/memory.h"

namespace tandem::model {

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Gigabytes a second of reading a gigabyte of memory once, all threads together; the best of 3.
inline double StreamedGigabytes(Team& team) {
  constexpr size_t kBytes = size_t{1} << 30;
  const auto mapping = Mapping::Anonymous(kBytes);
  if (!mapping) return 0;
  std::memset(mapping->data(), 1, kBytes);
  double best = 0;
  for (int run = 0; run < 3; ++run) {
    const double start = Seconds();
    team.Run([&](TeamMember& member) {
      // Four streams a thread: one does not reach the limit on every CPU.
      const auto* words = reinterpret_cast<const uint64_t*>(mapping->data());
      const size_t part = kBytes / 8 / static_cast<size_t>(member.count()) / 4;
      words += static_cast<size_t>(member.index()) * part * 4;
      uint64_t sums[4] = {};
      for (size_t i = 0; i < part; i += 8)
        for (size_t s = 0; s < 4; ++s)
          for (size_t j = 0; j < 8; ++j) sums[s] ^= words[s * part + i + j];
      volatile uint64_t keep = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
      static_cast<void>(keep);
    });
    best = std::max(best, static_cast<double>(kBytes) / 1e9 / (Seconds() - start));
  }
  return best;
}

}  // namespace tandem::model

#endif  // TANDEM_BENCH_MEMORY_RATE_H_

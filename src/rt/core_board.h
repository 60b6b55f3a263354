// The core board: how the workers of one host share its cores (docs/contracts/cores.md). A small
// file in shared memory, one per user, that every worker maps. It affects speed, never correctness.
#ifndef TANDEM_RT_CORE_BOARD_H_
#define TANDEM_RT_CORE_BOARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::rt {

// CPUs that this process may use: its affinity.
std::vector<int> AllowedCpus();
// Threads worth running at once: the affinity, cut by the cgroup's CPU quota; at least 1.
int AvailableCores();

struct CoreBoardOptions {
  std::string directory = "/dev/shm";
  // The CPUs to share; empty = AllowedCpus(). Workers whose sets do not meet ignore each other.
  std::vector<int> cpus{};
  int max_cores = 0;  // most cores to hold at once; 0 = AvailableCores()
};

struct CoreBoardStats {
  uint64_t waits = 0;      // Acquire calls that had to park
  uint64_t overrides = 0;  // claims taken over that were held for 2 s
};

// One worker's seat at the board. One thread at a time.
class CoreBoard {
 public:
  // Opens or creates the file (mode 0600) and takes a seat. kResourceExhausted if all 64 are taken.
  static Result<std::unique_ptr<CoreBoard>> Open(const CoreBoardOptions& options);
  ~CoreBoard();
  CoreBoard(const CoreBoard&) = delete;
  CoreBoard& operator=(const CoreBoard&) = delete;

  // Claims up to min(max_threads, this worker's share) cores and returns their number, at least 1.
  // Parks, in ticket order, while all are claimed. Marks this worker as interested.
  int Acquire(int max_threads);
  // Gives the claims back. The interest stays for 20 ms.
  void Release();

  // Workers with work whose CPUs meet ours, this one included if it is interested.
  int Interested();
  int cores() const;
  const CoreBoardStats& stats() const;

 private:
  struct Impl;
  explicit CoreBoard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_CORE_BOARD_H_

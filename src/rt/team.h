// The compute threads of one engine: a Team whose members spin briefly, then park, between regions,
// follow the core board, and step aside when the machine is busy (docs/contracts/cores.md).
#ifndef TANDEM_RT_TEAM_H_
#define TANDEM_RT_TEAM_H_

#include <memory>

#include "base/team.h"
#include "base/time.h"
#include "rt/core_board.h"

namespace tandem::rt {

struct ThreadTeamOptions {
  int max_threads = 1;
  // Shares the cores with other workers of this host. Not owned; may be null. Used by Run only.
  CoreBoard* board = nullptr;
  // Without a board: at most this fraction of the cores, at least one thread. 0 < cpu_share <= 1.
  double cpu_share = 1.0;
  // How long a member spins for the next region before it parks. Parking and waking costs 20-30 us.
  Duration spin = std::chrono::microseconds(50);
  bool pin_threads = false;  // binds member i to the i-th allowed CPU
  bool adaptive = true;      // fewer threads while members lose their cores to other processes
};

class ThreadTeam final : public Team {
 public:
  explicit ThreadTeam(ThreadTeamOptions options);
  ~ThreadTeam() override;  // joins the threads; not during Run

  int MaxSize() const override;
  // May wait for a core when the board says so. See base/team.h.
  void Run(FunctionRef<void(TeamMember&)> work) override;
  // Threads of the latest region.
  int LastSize() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_TEAM_H_

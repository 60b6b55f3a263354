// A team of compute threads, as the model sees it. Implemented by rt (threads that spin, then park,
// and follow the core board); SerialTeam serves tests and single-threaded callers.
#ifndef TANDEM_BASE_TEAM_H_
#define TANDEM_BASE_TEAM_H_

#include <atomic>
#include <cstdint>

#include "base/function_ref.h"

namespace tandem {

// One thread's place in a running region.
class TeamMember {
 public:
  TeamMember(int index, int count, std::atomic<uint32_t>* arrivals)
      : index_(index), count_(count), arrivals_(arrivals) {}

  int index() const { return index_; }  // 0 .. count-1; 0 is the calling thread
  int count() const { return count_; }

  // Waits until every member of this region has arrived the same number of times. Writes before
  // it are visible to all members after it.
  void Barrier() {
    if (count_ == 1) return;
    ++epoch_;
    arrivals_->fetch_add(1, std::memory_order_acq_rel);
    const uint32_t target = epoch_ * static_cast<uint32_t>(count_);
    for (uint32_t spins = 0;
         static_cast<int32_t>(arrivals_->load(std::memory_order_acquire) - target) < 0; ++spins)
      Relax(spins);
  }

 private:
  // Pauses; after about 50 us gives the core away, since the thread waited for may need it.
  static void Relax(uint32_t spins);

  int index_;
  int count_;
  uint32_t epoch_ = 0;
  std::atomic<uint32_t>* arrivals_;  // zero when the region starts
};

class Team {
 public:
  virtual ~Team() = default;
  // The most threads a region can have.
  virtual int MaxSize() const = 0;
  // Runs work(member) on some number of threads 1..MaxSize(), the caller among them, and returns
  // when all are done. The number may differ from one call to the next (cores are given back
  // between calls), so work is divided by member.index() and member.count() and must give the same
  // bits for any count. Call from one thread at a time. Threads have FTZ and DAZ set.
  virtual void Run(FunctionRef<void(TeamMember&)> work) = 0;
};

// Runs regions on the calling thread alone.
class SerialTeam final : public Team {
 public:
  int MaxSize() const override { return 1; }
  void Run(FunctionRef<void(TeamMember&)> work) override {
    TeamMember member(0, 1, nullptr);
    work(member);
  }
};

// Sets flush-to-zero and denormals-are-zero on the calling thread (docs/contracts/numerics.md).
void FlushDenormalsOnThisThread();

}  // namespace tandem

#endif  // TANDEM_BASE_TEAM_H_

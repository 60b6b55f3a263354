// Test support: a team of fixed size on plain threads that sleep between regions.
#ifndef TANDEM_MODEL_TEST_TEAM_H_
#define TANDEM_MODEL_TEST_TEAM_H_

#include <atomic>
#include <thread>
#include <vector>

#include "base/team.h"

namespace tandem::model {

class TestTeam final : public Team {
 public:
  explicit TestTeam(int size) : size_(size) {
    for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { Serve(i); });
  }
  ~TestTeam() override {
    work_ = nullptr;
    StartRegion();
    for (std::thread& thread : threads_) thread.join();
  }

  int MaxSize() const override { return size_; }
  void Run(FunctionRef<void(TeamMember&)> work) override {
    FlushDenormalsOnThisThread();
    arrivals_ = 0;
    running_ = size_ - 1;
    work_ = &work;
    StartRegion();
    TeamMember member(0, size_, &arrivals_);
    work(member);
    while (running_ != 0) std::this_thread::yield();
  }

 private:
  void StartRegion() {
    ++region_;
    region_.notify_all();
  }
  void Serve(int index) {
    FlushDenormalsOnThisThread();
    for (uint32_t seen = 0;;) {
      region_.wait(seen);
      seen = region_;
      if (work_ == nullptr) return;
      TeamMember member(index, size_, &arrivals_);
      (*work_)(member);
      --running_;
    }
  }

  int size_;
  std::atomic<uint32_t> region_{0};
  std::atomic<int> running_{0};
  std::atomic<uint32_t> arrivals_{0};
  FunctionRef<void(TeamMember&)>* work_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TEST_TEAM_H_

// For tests: the real and the simulated runtime behind one interface.
#ifndef TANDEM_RT_TEST_LOOPS_H_
#define TANDEM_RT_TEST_LOOPS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "rt/real_runtime.h"
#include "rt/sim_runtime.h"

namespace tandem::rt {

enum class LoopKind { kSim, kReal };

class LoopTest : public testing::TestWithParam<LoopKind> {
 protected:
  LoopTest() {
    if (GetParam() == LoopKind::kSim) {
      sim_ = std::make_unique<SimRuntime>(7);
    } else {
      real_ = std::make_unique<RealRuntime>();
    }
  }
  Runtime& runtime() {
    return sim_ != nullptr ? static_cast<Runtime&>(*sim_) : static_cast<Runtime&>(*real_);
  }
  // A task that hangs fails the test: by idleness in simulation, by a timer in real time.
  void Run(Task<void> task) {
    if (sim_ != nullptr) {
      ASSERT_TRUE(sim_->RunTask(std::move(task)));
      return;
    }
    const auto timer =
        real_->RunAt(real_->Now() + std::chrono::seconds(20), [this] { real_->Stop(); });
    ASSERT_TRUE(real_->RunTask(std::move(task)));
  }

 private:
  std::unique_ptr<SimRuntime> sim_;
  std::unique_ptr<RealRuntime> real_;
};

inline std::string LoopName(const testing::TestParamInfo<LoopKind>& info) {
  return info.param == LoopKind::kSim ? "Sim" : "Real";
}

#define TANDEM_BOTH_LOOPS(suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(                                                                       \
      Loops, suite, testing::Values(::tandem::rt::LoopKind::kSim, ::tandem::rt::LoopKind::kReal), \
      ::tandem::rt::LoopName)

}  // namespace tandem::rt

#endif  // TANDEM_RT_TEST_LOOPS_H_

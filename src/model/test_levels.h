// Test support: the instruction levels to compare, and random rows.
#ifndef TANDEM_MODEL_TEST_LEVELS_H_
#define TANDEM_MODEL_TEST_LEVELS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/team.h"
#include "model/ops.h"
#include "model/tiny_gguf.h"

namespace tandem::model {

const Ops& EmulatedAvx512Ops();

inline bool CanEmulate() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Plain first.
inline std::vector<const Ops*> Levels() {
  const OpsList list = AvailableOps();
  std::vector<const Ops*> levels(list.levels, list.levels + list.count);
  if (CanEmulate()) levels.push_back(&EmulatedAvx512Ops());
  return levels;
}

// Compute threads flush denormals; so do these tests.
class KernelsTest : public testing::Test {
 protected:
  void SetUp() override { FlushDenormalsOnThisThread(); }
};

inline std::vector<float> RandomFloats(RandomBytes& random, size_t count, float spread) {
  std::vector<float> values(count);
  for (float& v : values) v = random.Uniform(-spread, spread);
  return values;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TEST_LEVELS_H_

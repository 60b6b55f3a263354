// The AVX-512 level on emulated instructions, for the tests in kernels_test.cc.
#include "model/avx512_emulation.h"
// After it, since the emulation renames what this one uses.
#include "model/kernels_table.h"
#include "model/simd_avx512.h"

namespace tandem::model {

const Ops& EmulatedAvx512Ops() {
  static constexpr Ops kOps = MakeOps<EmulatedAvx512>("avx512 emulated");
  return kOps;
}

}  // namespace tandem::model

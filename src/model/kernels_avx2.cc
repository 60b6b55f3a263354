#include "model/kernels_table.h"
#include "model/simd_avx2.h"

namespace tandem::model {

const Ops& Avx2Ops() {
  static constexpr Ops kOps = MakeOps<Avx2>("avx2");
  return kOps;
}

}  // namespace tandem::model

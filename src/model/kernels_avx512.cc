#include "model/kernels_table.h"
#include "model/simd_avx512.h"

namespace tandem::model {

const Ops& Avx512Ops() {
  static constexpr Ops kOps = MakeOps<Avx512>("avx512");
  return kOps;
}

}  // namespace tandem::model

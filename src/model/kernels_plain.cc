#include "model/kernels_table.h"
#include "model/simd_plain.h"

namespace tandem::model {

const Ops& PlainOps() {
  static constexpr Ops kOps = MakeOps<Plain>("plain");
  return kOps;
}

}  // namespace tandem::model

// Test support: what the cache keeps of a head, worked out apart from the kernels.
#ifndef TANDEM_MODEL_TEST_KV_H_
#define TANDEM_MODEL_TEST_KV_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "model/float16.h"
#include "model/kv_layout.h"

namespace tandem::model {

inline constexpr KvDtype kAllKvDtypes[] = {KvDtype::kFloat16, KvDtype::kFloat32, KvDtype::kBfloat16,
                                           KvDtype::kInt8};

// To eight bits of mantissa, ties to even; for normal numbers.
inline double NearestBfloat16(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(mantissa * 256), exponent - 8);
}

// The numbers that a query meets in place of the `n` of one head of a key or value.
inline std::vector<double> KeptHead(const float* x, size_t n, KvDtype dtype) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  std::vector<double> kept(n);
  for (size_t i = 0; i < n; ++i) switch (dtype) {
      case KvDtype::kFloat16:
        kept[i] = double{HalfToFloat(FloatToHalf(x[i]))};
        break;
      case KvDtype::kFloat32:
        kept[i] = double{x[i]};
        break;
      case KvDtype::kBfloat16:
        kept[i] = NearestBfloat16(double{x[i]});
        break;
      case KvDtype::kInt8:
        kept[i] = double{std::nearbyint(x[i] * (127.0F / largest))} * double{largest / 127.0F};
        break;
    }
  return kept;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TEST_KV_H_

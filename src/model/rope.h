// Rotary position embedding: the cosines and sines of a position, computed in binary64 without the
// C library, whose results differ between versions and CPUs (docs/contracts/numerics.md).
#ifndef TANDEM_MODEL_ROPE_H_
#define TANDEM_MODEL_ROPE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::model {

class Rope {
 public:
  // rope_dims is even and at most head_dim; dimensions beyond it are not turned.
  Rope(int head_dim, int rope_dims, float base);

  // Fills head_dim cosines and head_dim signed sines, for interleaved pairs: element 2i has -sin,
  // element 2i + 1 has +sin of position * base^(-2i / rope_dims).
  void Row(int64_t position, std::span<float> cosine, std::span<float> sine) const;

 private:
  int head_dim_;
  std::vector<double> frequencies_;
};

// For tests: absolute error below 1e-12 for |x| < 1e6.
double Sine(double x);
double Cosine(double x);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ROPE_H_

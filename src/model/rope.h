// Rotary position embedding (arXiv 2104.09864) and its scalings: linear, dynamic NTK, Llama 3's,
// YaRN (arXiv 2309.00071) and long rope (arXiv 2402.13753). Cosines and sines are computed in
// binary64 without the C library, whose results differ between versions and CPUs
// (docs/contracts/numerics.md).
#ifndef TANDEM_MODEL_ROPE_H_
#define TANDEM_MODEL_ROPE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace tandem::model {

class Rope {
 public:
  // Turns config.dims, an even number of at most head_dim, dimensions of a head; what lies beyond
  // stays. `positions`: how many the model is to serve, which decides between the short and the
  // long form where a model has both, once for all tokens.
  Rope(const RopeConfig& config, int head_dim, int64_t positions);

  // Fills head_dim cosines and head_dim signed sines, for interleaved pairs: element 2i has -sin,
  // element 2i + 1 has +sin of position * frequency i.
  void Row(int64_t position, std::span<float> cosine, std::span<float> sine) const;
  // Of each pair, in turns of a radian per position.
  std::span<const double> frequencies() const { return frequencies_; }

 private:
  int head_dim_;
  double attention_factor_;
  std::vector<double> frequencies_;
};

// For tests: absolute error below 1e-12 for |x| < 1e6.
double Sine(double x);
double Cosine(double x);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ROPE_H_

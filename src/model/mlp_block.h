// The gated MLP of a layer: down(activation(gate x) * up x), biases where the model has them.
#ifndef TANDEM_MODEL_MLP_BLOCK_H_
#define TANDEM_MODEL_MLP_BLOCK_H_

#include "base/team.h"
#include "model/carver.h"
#include "model/step.h"
#include "model/weights.h"

namespace tandem::model {

class MlpBlock {
 public:
  explicit MlpBlock(const Step& step) : step_(step) {}
  void Carve(Carver& carver, size_t max_tokens) {
    gated_ = carver.Floats(max_tokens * step_.widths.inner);
  }
  // On every thread of a region, when the residual is complete; leaves it so at the region's end.
  void Run(const LayerWeights& layer, TeamMember& member) const;

 private:
  const Step& step_;
  float* gated_ = nullptr;  // [tokens][inner]
};

// gate := activation(gate + bias) * (up + bias) for 32 outputs, to `out`.
void Gate(const Step& step, const MlpWeights& mlp, size_t panel, float* gate, float* up,
          float* out);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MLP_BLOCK_H_

#include "model/mlp_block.h"

namespace tandem::model {

void Gate(const Step& step, const MlpWeights& mlp, size_t panel, float* gate, float* up,
          float* out) {
  if (!mlp.gate_bias.empty()) step.ops.add(mlp.gate_bias.data() + panel * kPanel, kPanel, gate);
  if (!mlp.up_bias.empty()) step.ops.add(mlp.up_bias.data() + panel * kPanel, kPanel, up);
  const auto activate =
      step.config.activation == Activation::kSilu ? step.ops.swiglu : step.ops.geglu;
  activate(gate, up, kPanel, out);
}

void MlpBlock::Run(const LayerWeights& layer, TeamMember& member) const {
  const MlpWeights& mlp = layer.mlp;
  const size_t rows = step_.rows();
  const size_t inner = mlp.down.inputs;
  Activations x = step_.Prepare(member, rows, {&mlp.gate, &mlp.up}, [&](size_t row, float* buffer) {
    return step_.Norm(step_.Residual(row), layer.feed_forward_norm, buffer);
  });
  MultiplyPairs(step_.ops, mlp.gate, mlp.up, PartOf(member, mlp.gate.panels()), x, rows,
                [&](size_t panel, size_t row, float* gate, float* up) {
                  Gate(step_, mlp, panel, gate, up, gated_ + row * inner + panel * kPanel);
                });
  member.Barrier();
  x = step_.Prepare(member, rows, {&mlp.down}, [&](size_t row, float*) {
    return static_cast<const float*>(gated_ + row * inner);
  });
  MultiplyPanels(step_.ops, mlp.down, PartOf(member, mlp.down.panels()), x, rows,
                 [&](size_t panel, size_t row, float* outputs) {
                   step_.Emit(panel, row, mlp.down_bias, outputs);
                 });
  if (!step_.config.post_norm) return;
  member.Barrier();
  step_.Finish(member, layer.feed_forward_post_norm);
}

}  // namespace tandem::model

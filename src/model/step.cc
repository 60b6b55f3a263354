#include "model/step.h"

#include <algorithm>

#include "model/dequant.h"

namespace tandem::model {

Step::Step(const Ops& step_ops, const ModelConfig& model_config, const Widths& model_widths,
           int max_threads, int64_t positions)
    : ops(step_ops),
      config(model_config),
      widths(model_widths),
      max_threads_(max_threads),
      global_(model_config.rope, model_widths.rope > 0 ? model_widths.rope : model_widths.head,
              positions),
      local_(model_config.local_rope, global_.head_dim, positions) {}

void Step::Carve(Carver& carver, size_t max_tokens, size_t max_logit_rows, size_t widest) {
  residual_ = carver.Floats(max_tokens * widths.residual);
  branch_ = carver.Floats(config.post_norm ? max_tokens * widths.residual : 0);
  for (RopeTable* table : {&global_, &local_}) {
    const bool used = table == &global_ || config.local_rope.dims > 0;
    table->cosine = carver.Floats(used ? max_tokens * table->head_dim : 0);
    table->sine = carver.Floats(used ? max_tokens * table->head_dim : 0);
  }
  const auto activations = [&carver](size_t rows, size_t width) {
    return Activations(carver.Take<std::byte>(Activations::Bytes(rows, width)), rows, width);
  };
  shared_ = activations(std::max(max_tokens, max_logit_rows), widest);
  shared_rest_ = activations(max_tokens, widths.residual);
  own_.clear();
  own_rest_.clear();
  for (int i = 0; i < max_threads_; ++i) {
    own_.push_back(activations(kRowsForEach, widest));
    own_rest_.push_back(activations(kRowsForEach, widths.residual));
  }
  places_.reserve(max_tokens);
  logit_tokens_.reserve(max_logit_rows);
}

void Step::Plan(std::span<const BatchSlice> slices, int block_tokens) {
  places_.clear();
  logit_tokens_.clear();
  last_ = false;
  for (const BatchSlice& slice : slices) {
    for (size_t i = 0; i < slice.tokens.size(); ++i) {
      const int64_t position = slice.start_position + static_cast<int64_t>(i);
      if (slice.tokens.size() - i <= static_cast<size_t>(slice.logit_rows))
        logit_tokens_.push_back(places_.size());
      places_.push_back({slice.block_table[static_cast<size_t>(position / block_tokens)],
                         static_cast<int32_t>(position % block_tokens), position, slice.tokens[i]});
    }
  }
}

void Step::Embed(const TeamMember& member, const Tensor& table) {
  const size_t row_bytes = RowBytes(table.type, table.Inputs());
  const Part part = PartOf(member, tokens());
  for (size_t token = part.begin; token < part.end; ++token) {
    const Place& at = places_[token];
    float* residual = ResidualOf(token);
    const auto width = static_cast<size_t>(config.embedding);
    DequantizeRow(table.type, table.bytes.data() + static_cast<size_t>(at.token) * row_bytes,
                  {residual, width});
    std::fill(residual + width, residual + widths.residual, 0.0F);
    if (config.embedding_scale != 1.0F)
      ops.scale(config.embedding_scale, widths.residual, residual);
    global_.Fill(token, at.position);
    if (config.local_rope.dims > 0) local_.Fill(token, at.position);
  }
}

Activations Step::Rest(const TeamMember& member, size_t rows) const {
  return (rows <= kRowsForEach ? own_rest_[static_cast<size_t>(member.index())] : shared_rest_)
      .WithWidth(widths.residual);
}

void Step::PrepareRest(const float* values, size_t row, const Activations& x,
                       const Activations& rest) const {
  const QuantizedRow quantized = x.Quantized(row);
  float* left = rest.Values(row);
  for (size_t block = 0; block < x.width() / kBlock; ++block)
    for (size_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
      left[i] = values[i] - quantized.scale[block] * static_cast<float>(quantized.q[i]);
  ops.quantize(left, x.width(), rest.Quantized(row));
}

void Step::AddToResidual(const float* values, size_t count, float* residual) const {
  if (config.residual_scale == 1.0F)
    ops.add(values, count, residual);
  else
    ops.add_scaled(config.residual_scale, values, count, residual);
}

void Step::Emit(size_t panel, size_t row, const std::vector<float>& bias, float* outputs) const {
  if (!bias.empty()) ops.add(bias.data() + panel * kPanel, kPanel, outputs);
  if (config.post_norm)
    std::memcpy(branch_ + row * widths.residual + panel * kPanel, outputs, kPanel * sizeof(float));
  else
    AddToResidual(outputs, kPanel, Residual(row) + panel * kPanel);
}

void Step::Finish(TeamMember& member, const NormWeights& norm) const {
  if (!config.post_norm) return;
  const Part part = PartOf(member, rows());
  for (size_t row = part.begin; row < part.end; ++row) {
    float* branch = branch_ + row * widths.residual;
    AddToResidual(Norm(branch, norm, branch), widths.residual, Residual(row));
  }
  member.Barrier();
}

}  // namespace tandem::model

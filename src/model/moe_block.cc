#include "model/moe_block.h"

#include <algorithm>
#include <cstring>

#include "model/mlp_block.h"

namespace tandem::model {
namespace {

// Shared experts are usually wider: shares are counted in the widest's panels, and scaled to each.
Part ScalePart(Part part, size_t of, size_t panels) {
  return {part.begin * panels / of, part.end * panels / of};
}

}  // namespace

void MoeBlock::Carve(Carver& carver, size_t max_tokens) {
  const MoeConfig& moe = step_.config.moe;
  const Widths& widths = step_.widths;
  const size_t entries = max_tokens * used();
  const size_t all = entries + max_tokens;
  const auto activations = [&carver](size_t rows, size_t width) {
    return Activations(carver.Take<std::byte>(Activations::Bytes(rows, width)), rows, width);
  };
  scores_ = carver.Floats(max_tokens * RoundUp(static_cast<size_t>(moe.experts), kPanel));
  shared_gate_ = carver.Floats(max_tokens);
  gated_ = carver.Floats(all * widths.inner);
  outputs_ = carver.Floats(all * widths.residual);
  inputs_ = activations(entries, widths.residual);
  middle_ = activations(all, widths.inner);
  choices_.resize(entries);
  entry_of_.resize(entries);
  row_of_.resize(entries);
  groups_.reserve(static_cast<size_t>(moe.experts) + 1);
}

void MoeBlock::Run(const LayerWeights& layer, TeamMember& member) {
  const MoeWeights& moe = layer.moe;
  const size_t rows = step_.rows();
  const MlpWeights& first = moe.experts.front();
  const Activations x = step_.Prepare(
      member, rows,
      {&moe.router, &first.gate, &first.up, &moe.shared.gate, &moe.shared.up, &moe.shared_gate},
      [&](size_t row, float* buffer) {
        return step_.Norm(step_.Residual(row), layer.feed_forward_norm, buffer);
      });
  Score(moe, member, x);
  member.Barrier();
  Route(moe, member);
  member.Barrier();
  if (member.index() == 0) Sort(moe);
  member.Barrier();
  const bool floats = !first.gate.quantized() || !first.up.quantized();
  const bool quantized = first.gate.quantized() || first.up.quantized();
  const Activations inputs = inputs_.WithWidth(step_.widths.residual);
  const Part part = PartOf(member, rows * used());
  for (size_t entry = part.begin; entry < part.end; ++entry)
    inputs.CopyRow(entry, x, row_of_[entry], floats, quantized);
  member.Barrier();
  GateUp(moe, member, x);
  member.Barrier();
  QuantizeGated(member);
  member.Barrier();
  Down(member);
  member.Barrier();
  Combine(moe, member);
  if (!step_.config.post_norm) return;
  member.Barrier();
  step_.Finish(member, layer.feed_forward_post_norm);
}

void MoeBlock::Score(const MoeWeights& moe, const TeamMember& member, const Activations& x) const {
  const size_t stride = RoundUp(moe.router.outputs, kPanel);
  MultiplyPanels(step_.ops, moe.router, PartOf(member, moe.router.panels()), x, step_.rows(),
                 [&](size_t panel, size_t row, const float* outputs) {
                   std::memcpy(scores_ + row * stride + panel * kPanel, outputs,
                               kPanel * sizeof(float));
                 });
  if (moe.shared_gate.outputs == 0) return;
  MultiplyPanels(
      step_.ops, moe.shared_gate, PartOf(member, 1), x, step_.rows(),
      [&](size_t, size_t row, const float* outputs) { shared_gate_[row] = Sigmoid(outputs[0]); });
}

void MoeBlock::Route(const MoeWeights& moe, const TeamMember& member) {
  const size_t stride = RoundUp(moe.router.outputs, kPanel);
  const Part part = PartOf(member, step_.rows());
  for (size_t row = part.begin; row < part.end; ++row)
    RouteToken(step_.config.moe, {scores_ + row * stride, moe.router.outputs}, moe.choice_bias,
               {choices_.data() + row * used(), used()});
}

void MoeBlock::Sort(const MoeWeights& moe) {
  const size_t entries = step_.rows() * used();
  std::vector<size_t> next(moe.experts.size() + 1, 0);
  for (size_t i = 0; i < entries; ++i) ++next[static_cast<size_t>(choices_[i].expert) + 1];
  groups_.clear();
  for (size_t e = 0; e < moe.experts.size(); ++e) {
    const size_t count = next[e + 1];
    next[e + 1] += next[e];
    if (count > 0) groups_.push_back({&moe.experts[e], next[e], next[e + 1]});
  }
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = next[static_cast<size_t>(choices_[i].expert)]++;
    entry_of_[i] = entry;
    row_of_[entry] = i / used();
  }
  if (moe.shared.gate.outputs > 0)
    groups_.push_back({&moe.shared, entries, entries + step_.rows()});
}

template <class F>
void MoeBlock::ForEachShare(const TeamMember& member, size_t panels, F f) const {
  const Part part = PartOf(member, groups_.size() * panels);
  for (size_t i = part.begin; i < part.end;) {
    const size_t group = i / panels;
    const size_t end = std::min(part.end, (group + 1) * panels);
    f(groups_[group], Part{i - group * panels, end - group * panels});
    i = end;
  }
}

void MoeBlock::GateUp(const MoeWeights& moe, const TeamMember& member, const Activations& x) const {
  const size_t most = step_.widths.inner / kPanel;
  const Activations inputs = inputs_.WithWidth(step_.widths.residual);
  ForEachShare(member, most, [&](const Group& group, Part part) {
    const MlpWeights& expert = *group.expert;
    const Activations rows = &expert == &moe.shared ? x : inputs.From(group.begin);
    MultiplyPairs(step_.ops, expert.gate, expert.up, ScalePart(part, most, expert.gate.panels()),
                  rows, group.end - group.begin,
                  [&](size_t panel, size_t row, float* gate, float* up) {
                    float* out = gated_ + (group.begin + row) * step_.widths.inner;
                    Gate(step_, expert, panel, gate, up, out + panel * kPanel);
                  });
  });
}

void MoeBlock::QuantizeGated(const TeamMember& member) const {
  for (const Group& group : groups_) {
    const PackedMatrix& down = group.expert->down;
    const Activations middle = middle_.WithWidth(step_.widths.inner);
    const size_t first = group.begin;
    const Part part = PartOf(member, group.end - first);
    for (size_t i = first + part.begin; i < first + part.end; ++i) {
      const float* gated = gated_ + i * step_.widths.inner;
      // Rows of one width each, since an expert's rows lie together.
      const Activations row = middle.From(i).WithWidth(down.inputs);
      if (down.quantized())
        step_.ops.quantize(gated, down.inputs, row.Quantized(0));
      else
        std::memcpy(row.Values(0), gated, down.inputs * sizeof(float));
    }
  }
}

void MoeBlock::Down(const TeamMember& member) const {
  const size_t panels = step_.widths.residual / kPanel;
  ForEachShare(member, panels, [&](const Group& group, Part part) {
    const PackedMatrix& down = group.expert->down;
    const Activations rows = middle_.WithWidth(step_.widths.inner).From(group.begin);
    MultiplyPanels(step_.ops, down, part, rows, group.end - group.begin,
                   [&](size_t panel, size_t row, float* outputs) {
                     const std::vector<float>& bias = group.expert->down_bias;
                     if (!bias.empty())
                       step_.ops.add(bias.data() + panel * kPanel, kPanel, outputs);
                     std::memcpy(
                         outputs_ + (group.begin + row) * step_.widths.residual + panel * kPanel,
                         outputs, kPanel * sizeof(float));
                   });
  });
}

void MoeBlock::Combine(const MoeWeights& moe, const TeamMember& member) const {
  static const std::vector<float> kNoBias;
  const size_t width = step_.widths.residual;
  const size_t entries = step_.rows() * used();
  const Part part = PartOf(member, step_.rows() * (width / kPanel));
  for (size_t i = part.begin; i < part.end; ++i) {
    const size_t row = i / (width / kPanel);
    const size_t panel = i % (width / kPanel);
    const size_t at = panel * kPanel;
    alignas(64) float sum[kPanel] = {};
    for (size_t j = row * used(); j < (row + 1) * used(); ++j)
      step_.ops.add_scaled(choices_[j].weight, outputs_ + entry_of_[j] * width + at, kPanel, sum);
    if (moe.shared.gate.outputs > 0)
      step_.ops.add_scaled(moe.shared_gate.outputs > 0 ? shared_gate_[row] : 1.0F,
                           outputs_ + (entries + row) * width + at, kPanel, sum);
    step_.Emit(panel, row, kNoBias, sum);
  }
}

}  // namespace tandem::model

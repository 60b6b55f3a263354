#include "model/attention_block.h"

#include <algorithm>
#include <cstring>

namespace tandem::model {
namespace {

// The part of [0, count) of a region that starts at `first` within a larger range.
Part Within(Part part, size_t first, size_t count) {
  const size_t begin = std::clamp(part.begin, first, first + count) - first;
  const size_t end = std::clamp(part.end, first, first + count) - first;
  return {begin, end};
}

// Heads side by side, `from` floats each, to `to` floats each; a buffer may hold both.
void Compact(const float* rows, size_t heads, size_t from, size_t to, float* out) {
  for (size_t head = 0; head < heads; ++head)
    std::memmove(out + head * to, rows + head * from, to * sizeof(float));
}

}  // namespace

void AttentionBlock::Carve(Carver& carver, size_t max_tokens) {
  const size_t head = step_.widths.head;
  const size_t query_row = RoundUp(heads() * head, kPanel);
  const size_t key_row = RoundUp(kv_heads() * head, kPanel);
  projected_ = carver.Floats(max_tokens * query_row);
  keys_ = carver.Floats(max_tokens * key_row);
  values_ = carver.Floats(max_tokens * key_row);
  queries_ = carver.Floats(max_tokens * heads() * head);
  attended_ = carver.Floats(max_tokens * heads() * head);
}

void AttentionBlock::Run(int index, const LayerWeights& layer, TeamMember& member) const {
  const AttentionWeights& weights = layer.attention;
  Activations x = step_.Prepare(
      member, step_.tokens(), {&weights.q, &weights.k, &weights.v},
      [&](size_t token, float* buffer) {
        return step_.Norm(step_.ResidualOf(token), layer.attention_norm, buffer);
      },
      weights.v.quantized());
  Project(layer, member, x);
  member.Barrier();
  Turn(index, layer, member);
  const size_t rows = step_.rows();
  if (rows == 0) return;
  member.Barrier();
  attention_.Work(member.index(), queries_, attended_);
  member.Barrier();
  const auto dim = static_cast<size_t>(step_.config.head_dim);
  const size_t used = heads() * dim;
  x = step_.Prepare(member, rows, {&weights.output}, [&](size_t row, float* buffer) {
    const float* attended = attention_.Row(step_.TokenOf(row), attended_, buffer);
    if (dim == step_.widths.head && used == weights.output.inputs) return attended;
    Compact(attended, heads(), step_.widths.head, dim, buffer);
    std::fill(buffer + used, buffer + weights.output.inputs, 0.0F);
    return static_cast<const float*>(buffer);
  });
  MultiplyPanels(step_.ops, weights.output, PartOf(member, weights.output.panels()), x, rows,
                 [&](size_t panel, size_t row, float* outputs) {
                   step_.Emit(panel, row, weights.output_bias, outputs);
                 });
}

void AttentionBlock::Project(const LayerWeights& layer, const TeamMember& member,
                             const Activations& x) const {
  const AttentionWeights& weights = layer.attention;
  const size_t tokens = step_.tokens();
  const size_t q_panels = weights.q.panels();
  const size_t kv_panels = weights.k.panels();
  // Values are worth two passes where they are quantised, so their panels count twice.
  const size_t value_passes = weights.v.quantized() ? 2 : 1;
  const Part part = PartOf(member, q_panels + (1 + value_passes) * kv_panels);
  const auto store = [&](float* to, size_t row_heads, const std::vector<float>& bias) {
    return [this, to, row_heads, &bias](size_t panel, size_t token, float* outputs) {
      if (!bias.empty()) {
        // The last panel may be wider than the heads are.
        const size_t first = panel * kPanel;
        step_.ops.add(bias.data() + first, std::min<size_t>(kPanel, bias.size() - first), outputs);
      }
      std::memcpy(Row(to, token, row_heads) + panel * kPanel, outputs, kPanel * sizeof(float));
    };
  };
  MultiplyPanels(step_.ops, weights.q, Within(part, 0, q_panels), x, tokens,
                 store(projected_, heads(), weights.q_bias));
  MultiplyPanels(step_.ops, weights.k, Within(part, q_panels, kv_panels), x, tokens,
                 store(keys_, kv_heads(), weights.k_bias));
  const Part passes = Within(part, q_panels + kv_panels, value_passes * kv_panels);
  const Part v_part = {passes.begin / value_passes, passes.end / value_passes};
  const auto store_values = store(values_, kv_heads(), weights.v_bias);
  if (weights.v.quantized())
    MultiplyTwice(step_.ops, weights.v, v_part, x, step_.Rest(member, tokens), tokens,
                  store_values);
  else
    MultiplyPanels(step_.ops, weights.v, v_part, x, tokens, store_values);
}

void AttentionBlock::TurnHead(const RopeTable& rope, size_t token, const NormWeights& norm,
                              float* head) const {
  const size_t width = step_.widths.head;
  if (step_.config.qk_norm == QkNorm::kHead) step_.Norm(head, norm, head);
  step_.ops.rope(rope.cosine + token * width, rope.sine + token * width, width, head);
}

// A token's heads may go to different members, unless one norm spans them.
void AttentionBlock::Turn(int index, const LayerWeights& layer, const TeamMember& member) const {
  const AttentionWeights& weights = layer.attention;
  const bool local = step_.config.layers[static_cast<size_t>(index)].local_rope;
  const RopeTable& rope = step_.rope(local);
  const size_t width = step_.widths.head;
  const auto query = [&](size_t token, size_t head) {
    float* from = Row(projected_, token, heads()) + head * width;
    TurnHead(rope, token, weights.q_norm, from);
    step_.ops.scale(step_.config.attention_scale, width, from);
    std::memcpy(queries_ + (token * heads() + head) * width, from, width * sizeof(float));
  };
  const auto key = [&](size_t token, size_t head) {
    float* from = Row(keys_, token, kv_heads()) + head * width;
    TurnHead(rope, token, weights.k_norm, from);
    const Place& place = step_.place(token);
    writer_.Store({place.block, place.slot}, index, static_cast<int>(head), from,
                  Row(values_, token, kv_heads()) + head * width);
  };
  if (step_.config.qk_norm == QkNorm::kWidth) {
    const Part part = PartOf(member, step_.tokens());
    for (size_t token = part.begin; token < part.end; ++token) {
      float* queries = Row(projected_, token, heads());
      float* keys = Row(keys_, token, kv_heads());
      step_.Norm(queries, weights.q_norm, queries);
      step_.Norm(keys, weights.k_norm, keys);
      for (size_t head = 0; head < heads(); ++head) query(token, head);
      for (size_t head = 0; head < kv_heads(); ++head) key(token, head);
    }
    return;
  }
  const size_t all = heads() + kv_heads();
  const Part part = PartOf(member, step_.tokens() * all);
  for (size_t i = part.begin; i < part.end; ++i) {
    if (i % all < heads())
      query(i / all, i % all);
    else
      key(i / all, i % all - heads());
  }
}

}  // namespace tandem::model

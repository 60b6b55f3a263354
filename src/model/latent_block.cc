#include "model/latent_block.h"

#include <algorithm>
#include <cstring>

namespace tandem::model {
namespace {

// An epilogue that copies panels to rows of `stride` floats.
auto CopyTo(float* rows, size_t stride) {
  return [rows, stride](size_t panel, size_t row, const float* outputs) {
    std::memcpy(rows + row * stride + panel * kPanel, outputs, kPanel * sizeof(float));
  };
}

// One panel of a float matrix times rows that lie `stride` floats apart.
template <class Epilogue>
void MultiplyRows(const Ops& ops, const PackedMatrix& matrix, size_t panel, const float* rows,
                  size_t stride, size_t count, Epilogue epilogue) {
  alignas(64) float out[kMaxTileRows * kPanel];
  const PanelFn* kernels = ops.panel[static_cast<int>(matrix.format)];
  ForEachTile(count, static_cast<size_t>(ops.max_rows), [&](size_t first, size_t tile) {
    RowsView view;
    view.values = rows + first * stride;
    view.stride = stride;
    kernels[tile - 1](matrix.panel(panel), matrix.blocks(), view, out, kPanel);
    for (size_t r = 0; r < tile; ++r) epilogue(first + r, out + r * kPanel);
  });
}

}  // namespace

void LatentBlock::Carve(Carver& carver, size_t max_tokens) {
  const Widths& w = step_.widths;
  query_down_ = carver.Floats(max_tokens * w.query_latent);
  latent_ = carver.Floats(max_tokens * w.head);
  key_rope_ = carver.Floats(max_tokens * RoundUp(w.rope, kPanel));
  query_plain_ = carver.Floats(max_tokens * heads() * w.plain);
  query_rope_ = carver.Floats(max_tokens * RoundUp(heads() * w.rope, kPanel));
  queries_ = carver.Floats(max_tokens * heads() * w.head);
  attended_ = carver.Floats(max_tokens * heads() * w.latent);
  const auto value = static_cast<size_t>(step_.config.mla.value_dim);
  values_ = carver.Floats(max_tokens * RoundUp(heads() * value, kBlock));
}

void LatentBlock::Run(int index, const LayerWeights& layer, TeamMember& member) const {
  const LatentWeights& weights = layer.latent;
  Down(layer, member);
  member.Barrier();
  StoreKeys(index, weights, member);
  if (weights.query_down.outputs > 0) {
    const Activations x =
        step_.Prepare(member, step_.tokens(), {&weights.query_plain, &weights.query_rope},
                      [&](size_t token, float* buffer) {
                        return step_.Norm(query_down_ + token * step_.widths.query_latent,
                                          weights.query_norm, buffer);
                      });
    Queries(weights, member, x);
    member.Barrier();
  }
  Absorb(weights, member);
  const size_t rows = step_.rows();
  if (rows == 0) return;
  member.Barrier();
  attention_.Work(member.index(), queries_, attended_);
  member.Barrier();
  Release(weights, member);
  member.Barrier();
  const size_t stride = weights.output.inputs;
  const Activations x = step_.Prepare(member, rows, {&weights.output}, [&](size_t row, float*) {
    return static_cast<const float*>(values_ + row * stride);
  });
  MultiplyPanels(
      step_.ops, weights.output, PartOf(member, weights.output.panels()), x, rows,
      [&](size_t panel, size_t row, float* outputs) { step_.Emit(panel, row, {}, outputs); });
}

void LatentBlock::Down(const LayerWeights& layer, TeamMember& member) const {
  const LatentWeights& weights = layer.latent;
  const Widths& w = step_.widths;
  const bool direct = weights.query_down.outputs == 0;
  const size_t tokens = step_.tokens();
  const Activations x =
      step_.Prepare(member, tokens,
                    {&weights.latent, &weights.key_rope, &weights.query_down,
                     direct ? &weights.query_plain : &weights.query_down,
                     direct ? &weights.query_rope : &weights.query_down},
                    [&](size_t token, float* buffer) {
                      return step_.Norm(step_.ResidualOf(token), layer.attention_norm, buffer);
                    });
  MultiplyPanels(step_.ops, weights.latent, PartOf(member, weights.latent.panels()), x, tokens,
                 CopyTo(latent_, w.head));
  MultiplyPanels(step_.ops, weights.key_rope, PartOf(member, weights.key_rope.panels()), x, tokens,
                 CopyTo(key_rope_, RoundUp(w.rope, kPanel)));
  if (direct)
    Queries(weights, member, x);
  else
    MultiplyPanels(step_.ops, weights.query_down, PartOf(member, weights.query_down.panels()), x,
                   tokens, CopyTo(query_down_, w.query_latent));
}

void LatentBlock::StoreKeys(int index, const LatentWeights& weights,
                            const TeamMember& member) const {
  const Widths& w = step_.widths;
  const RopeTable& rope = step_.rope(false);
  const Part part = PartOf(member, step_.tokens());
  for (size_t token = part.begin; token < part.end; ++token) {
    float* key = latent_ + token * w.head;
    step_.Norm(key, weights.latent_norm, key);
    float* turned = key + w.latent;
    std::memcpy(turned, key_rope_ + token * RoundUp(w.rope, kPanel), w.rope * sizeof(float));
    step_.ops.rope(rope.cosine + token * w.rope, rope.sine + token * w.rope, w.rope, turned);
    const Place& place = step_.place(token);
    writer_.Store({place.block, place.slot}, index, 0, key, key);
  }
}

void LatentBlock::Queries(const LatentWeights& weights, const TeamMember& member,
                          const Activations& x) const {
  const Widths& w = step_.widths;
  const size_t tokens = step_.tokens();
  MultiplyPanels(step_.ops, weights.query_plain, PartOf(member, weights.query_plain.panels()), x,
                 tokens, CopyTo(query_plain_, heads() * w.plain));
  MultiplyPanels(step_.ops, weights.query_rope, PartOf(member, weights.query_rope.panels()), x,
                 tokens, CopyTo(query_rope_, RoundUp(heads() * w.rope, kPanel)));
}

void LatentBlock::Absorb(const LatentWeights& weights, const TeamMember& member) const {
  const Widths& w = step_.widths;
  const size_t tokens = step_.tokens();
  const size_t stride = heads() * w.head;
  const size_t panels = w.latent / kPanel;
  const Part part = PartOf(member, heads() * panels);
  for (size_t i = part.begin; i < part.end; ++i) {
    const size_t head = i / panels;
    const size_t panel = i % panels;
    MultiplyRows(step_.ops, weights.key_up[head], panel, query_plain_ + head * w.plain,
                 heads() * w.plain, tokens, [&](size_t token, float* outputs) {
                   step_.ops.scale(step_.config.attention_scale, kPanel, outputs);
                   std::memcpy(queries_ + token * stride + head * w.head + panel * kPanel, outputs,
                               kPanel * sizeof(float));
                 });
  }
  const RopeTable& rope = step_.rope(false);
  const Part turns = PartOf(member, tokens * heads());
  for (size_t i = turns.begin; i < turns.end; ++i) {
    const size_t token = i / heads();
    const size_t head = i % heads();
    float* query = queries_ + token * stride + head * w.head + w.latent;
    const float* from = query_rope_ + token * RoundUp(heads() * w.rope, kPanel) + head * w.rope;
    std::memcpy(query, from, w.rope * sizeof(float));
    step_.ops.rope(rope.cosine + token * w.rope, rope.sine + token * w.rope, w.rope, query);
    step_.ops.scale(step_.config.attention_scale, w.rope, query);
  }
}

// What a head gathered of a token may lie in pieces, so each row is put together first.
void LatentBlock::Release(const LatentWeights& weights, const TeamMember& member) const {
  const Widths& w = step_.widths;
  const size_t rows = step_.rows();
  const auto value = static_cast<size_t>(step_.config.mla.value_dim);
  const size_t row_values = weights.output.inputs;
  const size_t panels = weights.value_up.front().panels();
  const Part part = PartOf(member, rows);
  std::vector<float> pieces(heads() * w.latent);
  for (size_t row = part.begin; row < part.end; ++row) {
    const float* gathered = attention_.Row(step_.TokenOf(row), attended_, pieces.data());
    for (size_t i = 0; i < heads() * panels; ++i) {
      const size_t head = i / panels;
      const size_t first = i % panels * kPanel;
      MultiplyRows(step_.ops, weights.value_up[head], i % panels, gathered + head * w.latent, 0, 1,
                   [&](size_t, const float* outputs) {
                     std::memcpy(values_ + row * row_values + head * value + first, outputs,
                                 std::min<size_t>(kPanel, value - first) * sizeof(float));
                   });
    }
  }
}

}  // namespace tandem::model

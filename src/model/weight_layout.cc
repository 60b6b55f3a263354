#include "model/weight_layout.h"

#include <algorithm>
#include <string>

#include "model/tensor_finder.h"

namespace tandem::model {
namespace {

// Places matrices one after the other.
class Planner {
 public:
  PackedMatrix Place(PackSource source) {
    PackedMatrix matrix = Describe(source);
    matrix.panel_stride = PanelBytes(matrix.format, matrix.inputs);
    Add(std::move(source), matrix, 0);
    plan_.bytes += matrix.panels() * matrix.panel_stride;
    return matrix;
  }

  // Two matrices of equal shape, panel by panel.
  void PlacePair(PackSource a, PackSource b, PackedMatrix& first, PackedMatrix& second) {
    first = Describe(a);
    second = Describe(b);
    const size_t first_bytes = PanelBytes(first.format, first.inputs);
    first.panel_stride = second.panel_stride =
        first_bytes + PanelBytes(second.format, second.inputs);
    Add(std::move(a), first, 0);
    Add(std::move(b), second, first_bytes);
    plan_.bytes += first.panels() * first.panel_stride;
  }

  PackPlan Take() { return std::move(plan_); }

 private:
  static PackedMatrix Describe(const PackSource& source) {
    PackedMatrix matrix;
    matrix.format = source.format;
    matrix.inputs = source.inputs;
    matrix.outputs = source.outputs;
    return matrix;
  }
  void Add(PackSource source, PackedMatrix& matrix, size_t shift) {
    matrix.offset = plan_.bytes + shift;
    plan_.pieces.push_back({std::move(source), matrix.offset, matrix.panel_stride});
  }

  PackPlan plan_;
};

// `rows` rows of the tensor from `first` on.
PackSource SomeRows(PackSource source, int64_t first, int64_t rows) {
  source.first_row = first;
  source.outputs = static_cast<size_t>(rows);
  return source;
}

PackSource HeadRows(PackSource source, const HeadMap& map) {
  source.outputs = map.heads * map.padded;
  source.first_row = map.first;
  const bool as_they_are =
      map.padded == map.dim && map.stride == map.dim && !(map.half_split && map.turned > 0);
  if (!as_they_are) source.rows = map.Rows();
  return source;
}

PackSource Widened(PackSource source) {
  source.format = WeightFormat::kF32;
  return source;
}

class Layout {
 public:
  explicit Layout(const Checkpoint& checkpoint)
      : config_(checkpoint.config()), widths_(config_), find_(checkpoint) {}

  Result<WeightLayout> Run() {
    WeightLayout layout;
    Weights& weights = layout.weights;
    weights.layers.resize(config_.layers.size());
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      prefix_ = fmt::format("blk.{}.", i);
      TRY(Layer(config_.layers[i], weights.layers[i]));
    }
    TRY_ASSIGN(weights.final_norm, ResidualNorm("output_norm"));
    TRY_ASSIGN(weights.embedding, find_.Find("token_embd.weight", width_, config_.vocab));
    PackSource head = WholeTensor(*weights.embedding);
    if (!config_.tied_head && find_.Has("output.weight")) {
      TRY_ASSIGN(head, find_.Matrix("output.weight", width_, config_.vocab));
    }
    weights.head = planner_.Place(head);
    TRY(find_.RefuseOthers());
    layout.plan = planner_.Take();
    return layout;
  }

 private:
  std::string Name(std::string_view name) const { return fmt::format("{}{}", prefix_, name); }

  Result<NormWeights> ResidualNorm(const std::string& name) {
    return find_.Norm(name + ".weight", width_, widths_.residual);
  }

  Status Layer(const LayerConfig& kind, LayerWeights& layer) {
    if (config_.pre_norm) {
      TRY_ASSIGN(layer.attention_norm, ResidualNorm(Name("attn_norm")));
      TRY_ASSIGN(layer.feed_forward_norm, ResidualNorm(Name("ffn_norm")));
    }
    if (config_.post_norm) {
      TRY_ASSIGN(layer.attention_post_norm, ResidualNorm(Name("post_attention_norm")));
      TRY_ASSIGN(layer.feed_forward_post_norm, ResidualNorm(Name("post_ffw_norm")));
    }
    if (config_.mla.latent > 0)
      TRY(LatentAttention(layer.latent));
    else
      TRY(OrdinaryAttention(layer.attention));
    if (kind.experts) return Experts(layer.moe);
    return Mlp("", config_.feed_forward, layer.mlp);
  }

  // Queries, keys and values: three matrices, or the rows of one.
  struct Projection {
    std::string name;
    int64_t first = 0;  // row in the tensor
    int64_t rows = 0;   // of the tensor
  };
  Projection ProjectionOf(std::string_view part, int64_t first, int64_t all) const {
    if (find_.Has(Name("attn_qkv.weight"))) return {Name("attn_qkv"), first, all};
    return {Name(part), 0, -1};
  }

  Status OrdinaryAttention(AttentionWeights& a) {
    const int64_t queries = int64_t{config_.heads} * config_.head_dim;
    const int64_t keys = int64_t{config_.kv_heads} * config_.head_dim;
    const int64_t all = queries + 2 * keys;
    const auto dim = static_cast<size_t>(config_.head_dim);
    HeadMap map{.heads = static_cast<size_t>(config_.heads),
                .dim = dim,
                .padded = widths_.head,
                .stride = dim,
                .turned = static_cast<size_t>(config_.rope.dims),
                .half_split = config_.stored.half_split_rope};
    TRY(Project(ProjectionOf("attn_q", 0, all), queries, map, a.q, a.q_bias));
    TRY(QkNorms(map, "attn_q_norm", a.q_norm));
    map.heads = static_cast<size_t>(config_.kv_heads);
    TRY(Project(ProjectionOf("attn_k", queries, all), keys, map, a.k, a.k_bias));
    TRY(QkNorms(map, "attn_k_norm", a.k_norm));
    map.turned = 0;
    TRY(Project(ProjectionOf("attn_v", queries + keys, all), keys, map, a.v, a.v_bias));
    TRY_ASSIGN(const PackSource output, find_.Matrix(Name("attn_output.weight"), queries, width_));
    a.output = planner_.Place(output);
    TRY_ASSIGN(a.output_bias, find_.Bias(Name("attn_output.bias"), width_, widths_.residual));
    return {};
  }

  Status Project(const Projection& from, int64_t rows, HeadMap map, PackedMatrix& matrix,
                 std::vector<float>& bias) {
    const int64_t all = from.rows < 0 ? rows : from.rows;
    map.first = from.first;
    TRY_ASSIGN(const PackSource tensor, find_.Matrix(from.name + ".weight", width_, all));
    matrix = planner_.Place(HeadRows(tensor, map));
    TRY_ASSIGN(bias, find_.Bias(from.name + ".bias", all, map));
    return {};
  }

  Status QkNorms(HeadMap map, std::string_view name, NormWeights& norm) {
    if (config_.qk_norm == QkNorm::kNone) return {};
    if (config_.qk_norm == QkNorm::kHead) map.heads = 1;
    const auto values = static_cast<int64_t>(map.heads * map.dim);
    TRY_ASSIGN(norm, find_.Norm(Name(name) + ".weight", values, map));
    return {};
  }

  Status LatentAttention(LatentWeights& l) {
    const MlaConfig& mla = config_.mla;
    TRY(LatentQueries(l));
    TRY_ASSIGN(const PackSource down,
               find_.Matrix(Name("attn_kv_a_mqa.weight"), width_, mla.latent + mla.rope_dim));
    l.latent = planner_.Place(SomeRows(down, 0, mla.latent));
    l.key_rope = planner_.Place(HeadRows(down, RopeMap(mla.latent, 1, 0)));
    TRY_ASSIGN(l.latent_norm,
               find_.Norm(Name("attn_kv_a_norm.weight"), mla.latent, widths_.latent));
    if (find_.Has(Name("attn_kv_b.weight")))
      TRY(LatentUpJoined(l));
    else
      TRY(LatentUpSplit(l));
    TRY_ASSIGN(
        const PackSource output,
        find_.Matrix(Name("attn_output.weight"), int64_t{config_.heads} * mla.value_dim, width_));
    l.output = planner_.Place(output);
    return {};
  }

  // The part of a head that turns.
  HeadMap RopeMap(int64_t first, size_t heads, size_t stride) const {
    return {.first = first,
            .heads = heads,
            .dim = static_cast<size_t>(config_.mla.rope_dim),
            .padded = widths_.rope,
            .stride = stride,
            .turned = static_cast<size_t>(config_.mla.rope_dim),
            .half_split = config_.stored.half_split_rope};
  }

  Status LatentQueries(LatentWeights& l) {
    const MlaConfig& mla = config_.mla;
    int64_t inputs = width_;
    std::string name = Name("attn_q.weight");
    if (mla.query_latent > 0) {
      TRY_ASSIGN(const PackSource down,
                 find_.Matrix(Name("attn_q_a.weight"), width_, mla.query_latent));
      l.query_down = planner_.Place(down);
      TRY_ASSIGN(l.query_norm,
                 find_.Norm(Name("attn_q_a_norm.weight"), mla.query_latent, widths_.query_latent));
      inputs = mla.query_latent;
      name = Name("attn_q_b.weight");
    }
    const int64_t dim = mla.plain_dim + mla.rope_dim;
    const auto heads = static_cast<size_t>(config_.heads);
    TRY_ASSIGN(const PackSource up, find_.Matrix(name, inputs, config_.heads * dim));
    const auto stride = static_cast<size_t>(dim);
    l.query_plain = planner_.Place(HeadRows(up, {.heads = heads,
                                                 .dim = static_cast<size_t>(mla.plain_dim),
                                                 .padded = widths_.plain,
                                                 .stride = stride}));
    l.query_rope = planner_.Place(HeadRows(up, RopeMap(mla.plain_dim, heads, stride)));
    return {};
  }

  // One matrix from the latent vector to each head's key and value.
  Status LatentUpJoined(LatentWeights& l) {
    const MlaConfig& mla = config_.mla;
    const int64_t dim = mla.plain_dim + mla.value_dim;
    TRY_ASSIGN(const PackSource up,
               find_.Matrix(Name("attn_kv_b.weight"), mla.latent, config_.heads * dim));
    for (int64_t head = 0; head < config_.heads; ++head) {
      PackSource key = Widened(SomeRows(up, head * dim, mla.latent));
      key.inputs = widths_.plain;
      key.transposed_rows = static_cast<size_t>(mla.plain_dim);
      l.key_up.push_back(planner_.Place(std::move(key)));
      l.value_up.push_back(
          planner_.Place(Widened(SomeRows(up, head * dim + mla.plain_dim, mla.value_dim))));
    }
    return {};
  }

  // Newer GGUF files: two matrices, the keys' transposed already.
  Status LatentUpSplit(LatentWeights& l) {
    const MlaConfig& mla = config_.mla;
    TRY_ASSIGN(const PackSource key, find_.Matrix(Name("attn_k_b.weight"), mla.plain_dim,
                                                  int64_t{config_.heads} * mla.latent));
    TRY_ASSIGN(const PackSource value, find_.Matrix(Name("attn_v_b.weight"), mla.latent,
                                                    int64_t{config_.heads} * mla.value_dim));
    for (int64_t head = 0; head < config_.heads; ++head) {
      l.key_up.push_back(planner_.Place(Widened(SomeRows(key, head * mla.latent, mla.latent))));
      l.value_up.push_back(
          planner_.Place(Widened(SomeRows(value, head * mla.value_dim, mla.value_dim))));
    }
    return {};
  }

  // `suffix`: of a shared expert, or nothing.
  Status Mlp(std::string_view suffix, int64_t inner, MlpWeights& m) {
    const auto name = [&](std::string_view part) {
      return Name(fmt::format("ffn_{}{}", part, suffix));
    };
    const size_t padded = RoundUp(static_cast<size_t>(inner), kBlock);
    PackSource gate;
    PackSource up;
    // Phi-3 keeps both in one matrix; GGUF calls that "ffn_up".
    std::string both = name("gate_up");
    if (!find_.Has(both + ".weight") && !find_.Has(name("gate") + ".weight")) both = name("up");
    if (find_.Has(name("gate") + ".weight")) {
      TRY_ASSIGN(const PackSource first, find_.Matrix(name("gate") + ".weight", width_, inner));
      TRY_ASSIGN(const PackSource second, find_.Matrix(name("up") + ".weight", width_, inner));
      gate = first;
      up = second;
    } else {
      TRY_ASSIGN(const PackSource joined, find_.Matrix(both + ".weight", width_, 2 * inner));
      gate = SomeRows(joined, 0, inner);
      up = SomeRows(joined, inner, inner);
    }
    planner_.PlacePair(std::move(gate), std::move(up), m.gate, m.up);
    TRY_ASSIGN(const PackSource down, find_.Matrix(name("down") + ".weight", inner, width_));
    m.down = planner_.Place(down);
    TRY_ASSIGN(m.gate_bias, find_.Bias(name("gate") + ".bias", inner, padded));
    TRY_ASSIGN(m.up_bias, find_.Bias(name("up") + ".bias", inner, padded));
    TRY_ASSIGN(m.down_bias, find_.Bias(name("down") + ".bias", width_, widths_.residual));
    return {};
  }

  Status Experts(MoeWeights& m) {
    const MoeConfig& moe = config_.moe;
    TRY_ASSIGN(const PackSource router,
               find_.Matrix(Name("ffn_gate_inp.weight"), width_, moe.experts));
    m.router = planner_.Place(router);
    if (moe.choice_bias) {
      TRY_ASSIGN(m.choice_bias, find_.Vector(Name("exp_probs_b.bias"), moe.experts));
    }
    for (int64_t e = 0; e < moe.experts; ++e) {
      MlpWeights& expert = m.experts.emplace_back();
      TRY_ASSIGN(PackSource gate, ExpertRows("gate", e, width_, moe.inner));
      TRY_ASSIGN(PackSource up, ExpertRows("up", e, width_, moe.inner));
      planner_.PlacePair(std::move(gate), std::move(up), expert.gate, expert.up);
      TRY_ASSIGN(PackSource down, ExpertRows("down", e, moe.inner, width_));
      expert.down = planner_.Place(std::move(down));
    }
    if (moe.shared_inner > 0) TRY(Mlp("_shexp", moe.shared_inner, m.shared));
    if (moe.shared_gate) {
      TRY_ASSIGN(const PackSource gate, find_.Matrix(Name("ffn_gate_inp_shexp.weight"), width_, 1));
      m.shared_gate = planner_.Place(gate);
    }
    return {};
  }

  // One expert's matrix: a part of the one of all experts, or its own.
  Result<PackSource> ExpertRows(std::string_view part, int64_t expert, int64_t inputs,
                                int64_t rows) {
    const std::string all = Name(fmt::format("ffn_{}_exps.weight", part));
    if (find_.Has(all)) {
      TRY_ASSIGN(const PackSource tensor, find_.Matrix(all, inputs, rows * config_.moe.experts));
      return SomeRows(tensor, expert * rows, rows);
    }
    TRY_ASSIGN(
        PackSource tensor,
        find_.Matrix(Name(fmt::format("ffn_{}_exps.{}.weight", part, expert)), inputs, rows));
    return tensor;
  }

  const ModelConfig& config_;
  const Widths widths_;
  const int64_t width_ = config_.embedding;
  TensorFinder find_;
  Planner planner_;
  std::string prefix_;
};

}  // namespace

Widths::Widths(const ModelConfig& config) {
  const auto up = [](int n, size_t multiple) { return RoundUp(static_cast<size_t>(n), multiple); };
  residual = up(config.embedding, kBlock);
  inner = up(std::max({config.feed_forward, config.moe.inner, config.moe.shared_inner}), kBlock);
  head = value = up(config.head_dim, kTileKeys);
  const MlaConfig& mla = config.mla;
  if (mla.latent == 0) return;
  query_latent = up(mla.query_latent, kBlock);
  latent = up(mla.latent, kBlock);
  plain = up(mla.plain_dim, kBlock);
  rope = up(mla.rope_dim, kTileKeys);
  head = latent + rope;
  value = latent;
}

Result<WeightLayout> LayOutWeights(const Checkpoint& checkpoint) {
  return Layout(checkpoint).Run();
}

void Bind(const std::byte* image, Weights& weights) {
  ForEachMatrix(weights, [image](PackedMatrix& matrix) { matrix.image = image; });
}

}  // namespace tandem::model

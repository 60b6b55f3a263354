// The weights of a model as the forward pass uses them: which matrix lies where in the packed
// image, and the small vectors. Widths of rows are rounded up to whole blocks and heads to whole
// tiles, with zeros; dimensions of query and key heads lie in interleaved pairs.
#ifndef TANDEM_MODEL_WEIGHTS_H_
#define TANDEM_MODEL_WEIGHTS_H_

#include <vector>

#include "base/result.h"
#include "model/model_config.h"
#include "model/pack.h"
#include "model/tensor.h"

namespace tandem::model {

constexpr size_t RoundUp(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Widths that the forward pass computes with.
struct Widths {
  explicit Widths(const ModelConfig& config);
  size_t residual;  // a multiple of 32
  size_t inner;     // of the widest MLP or expert, a multiple of 32
  size_t head;      // of keys, a multiple of 16
  size_t value;     // of values, a multiple of 16
  // Latent attention; 0 otherwise.
  size_t query_latent = 0;  // a multiple of 32
  size_t latent = 0;        // a multiple of 32
  size_t plain = 0;         // a multiple of 32
  size_t rope = 0;          // a multiple of 16
};

// A norm over a row that may be padded: epsilon and weights make up for the larger count.
struct NormWeights {
  std::vector<float> weight;  // empty: no norm
  float epsilon = 0.0F;
};

struct AttentionWeights {
  PackedMatrix q, k, v, output;
  std::vector<float> q_bias, k_bias, v_bias, output_bias;  // empty: none
  NormWeights q_norm, k_norm;
};

struct LatentWeights {
  PackedMatrix query_down;  // no outputs: queries come from the residual
  NormWeights query_norm;
  PackedMatrix query_plain, query_rope;  // [heads][plain], [heads][rope]
  PackedMatrix latent, key_rope;
  NormWeights latent_norm;
  std::vector<PackedMatrix> key_up;    // of each head: plain to latent, float
  std::vector<PackedMatrix> value_up;  // of each head: latent to value, float
  PackedMatrix output;
};

struct MlpWeights {
  PackedMatrix gate, up;  // panels interleaved, so that both are one stream
  PackedMatrix down;
  std::vector<float> gate_bias, up_bias, down_bias;  // empty: none
};

struct MoeWeights {
  PackedMatrix router;
  std::vector<float> choice_bias;
  std::vector<MlpWeights> experts;
  MlpWeights shared;         // no outputs: none
  PackedMatrix shared_gate;  // one output, or none
};

struct LayerWeights {
  NormWeights attention_norm, attention_post_norm;
  NormWeights feed_forward_norm, feed_forward_post_norm;
  AttentionWeights attention;  // one of the two
  LatentWeights latent;
  MlpWeights mlp;  // one of the two
  MoeWeights moe;
};

struct Weights {
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  PackedMatrix head;                  // the token table's, where the file has no output matrix
  const Tensor* embedding = nullptr;  // rows are read from the file
};

// Calls f(PackedMatrix&) for every matrix that exists.
template <class F>
void ForEachMatrix(Weights& weights, F f) {
  const auto some = [&f](PackedMatrix& matrix) {
    if (matrix.outputs > 0) f(matrix);
  };
  const auto mlp = [&some](MlpWeights& m) { some(m.gate), some(m.up), some(m.down); };
  for (LayerWeights& layer : weights.layers) {
    AttentionWeights& a = layer.attention;
    some(a.q), some(a.k), some(a.v), some(a.output);
    LatentWeights& l = layer.latent;
    some(l.query_down), some(l.query_plain), some(l.query_rope), some(l.latent), some(l.key_rope);
    for (PackedMatrix& matrix : l.key_up) some(matrix);
    for (PackedMatrix& matrix : l.value_up) some(matrix);
    some(l.output);
    mlp(layer.mlp);
    some(layer.moe.router);
    for (MlpWeights& expert : layer.moe.experts) mlp(expert);
    mlp(layer.moe.shared);
    some(layer.moe.shared_gate);
  }
  some(weights.head);
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_WEIGHTS_H_

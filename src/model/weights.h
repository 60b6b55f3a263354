// The weights of a Llama model as the forward pass uses them: which matrix lies where in the packed
// image, and the small vectors.
#ifndef TANDEM_MODEL_WEIGHTS_H_
#define TANDEM_MODEL_WEIGHTS_H_

#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/pack.h"
#include "model/packed_cache.h"

namespace tandem::model {

struct LayerWeights {
  std::vector<float> attention_norm;
  std::vector<float> feed_forward_norm;
  PackedMatrix q, k, v;
  PackedMatrix output;
  PackedMatrix gate, up;  // panels interleaved, so that both are one stream
  PackedMatrix down;
};

struct Weights {
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;
  PackedMatrix head;                  // the token table's, where the file has no output matrix
  const Tensor* embedding = nullptr;  // rows are read from the file
};

// Lays out the packed image of a file that CheckTensors accepted. Bind then says where the image
// is.
struct WeightLayout {
  Weights weights;
  PackPlan plan;
};
WeightLayout LayOutWeights(const GgufView& file, const ModelConfig& config);
void Bind(const std::byte* image, Weights& weights);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_WEIGHTS_H_

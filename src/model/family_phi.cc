// Phi-3 and Phi-4: one matrix for queries, keys and values, one for gate and up; long rope.
#include "model/families.h"

namespace tandem::model {

Status ReadPhi3Hf(const HfConfig& file, ModelConfig& config) {
  if (file.Has("layer_types")) return {};
  TRY_ASSIGN(const int window, HfWindow(file));
  for (LayerConfig& layer : config.layers) layer.window = window;
  return {};
}

Status ReadPhi3Gguf(const GgufConfig& file, ModelConfig& config) {
  config.stored.half_split_rope = true;
  TRY_ASSIGN(const int window, GgufWindow(file));
  for (LayerConfig& layer : config.layers) layer.window = window;
  return {};
}

}  // namespace tandem::model

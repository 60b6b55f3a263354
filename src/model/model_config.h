// Turns the metadata of a model file into a ModelConfig and checks that the file holds exactly the
// tensors which that model needs.
#ifndef TANDEM_MODEL_MODEL_CONFIG_H_
#define TANDEM_MODEL_MODEL_CONFIG_H_

#include "base/result.h"
#include "model/gguf.h"
#include "model/model.h"

namespace tandem::model {

// Fails with kUnsupported for an architecture or feature that this build cannot run, and with
// kCorrupt for values that contradict each other; the message names the key, its value and what
// would be accepted.
Result<ModelConfig> ReadModelConfig(const GgufView& file);

// Every tensor of the architecture is there with the right shape, and none besides. Call it before
// FindTensor is trusted to find them. `output.weight` may be absent: then token_embd is used.
Status CheckTensors(const GgufView& file, const ModelConfig& config);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MODEL_CONFIG_H_

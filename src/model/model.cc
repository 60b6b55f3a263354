#include "model/model.h"

#include <algorithm>

#include "base/hash.h"
#include "model/gguf.h"
#include "model/llama.h"
#include "model/model_config.h"
#include "model/pack.h"
#include "model/weights.h"
#include "model/weights_digest.h"

namespace tandem::model {
namespace {

constexpr int kMaxBlockTokens = 1024;

// What the kernels need beyond what the file's own consistency demands.
Status CheckShapes(const ModelConfig& config, const std::string& path) {
  const auto width = [&](const char* what, int value, int multiple) -> Status {
    if (value % multiple == 0) return {};
    return Err(Code::kUnsupported,
               "{}: {} is {}; the native engine computes multiples of {} only: use another engine",
               path, what, value, multiple);
  };
  TRY(width("embedding_length", config.embedding, kBlock));
  TRY(width("feed_forward_length", config.feed_forward, kBlock));
  TRY(width("attention.key_length", config.head_dim, kTileKeys));
  return width("attention heads times key_length", config.heads * config.head_dim, kBlock);
}

// Names a packed image: the weights it was made from and the order of its bytes.
std::string PackKey(const std::string& digest) {
  return fmt::format("{}-v{}", digest, kPackVersion);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const LoadOptions& options, Team& team) {
  if (options.block_tokens < 1 || options.block_tokens > kMaxBlockTokens)
    return Err(Code::kInvalidArgument, "block size {} is not between 1 and {}",
               options.block_tokens, kMaxBlockTokens);
  LlamaModel::Parts parts;
  TRY_ASSIGN(parts.ops, ChooseOps(options.force_isa));
  TRY_ASSIGN(parts.file, GgufFile::Open(options.path));
  const GgufView& view = parts.file->view();
  TRY_ASSIGN(parts.config, ReadModelConfig(view));
  TRY(CheckTensors(view, parts.config));
  TRY(CheckShapes(parts.config, options.path));
  parts.kv_layout = {.layers = parts.config.layers,
                     .kv_heads = parts.config.kv_heads,
                     .k_dim = parts.config.head_dim,
                     .v_dim = parts.config.head_dim,
                     .block_tokens = options.block_tokens,
                     .dtype = options.kv_dtype};
  TRY_ASSIGN(parts.digest, WeightsDigestOf(*parts.file, options.path, options.cache_dir));
  WeightLayout layout = LayOutWeights(view, parts.config);
  TRY_ASSIGN(parts.image, LoadPacked(layout.plan, PackKey(parts.digest), options.cache_dir, team,
                                     options.progress));
  Bind(parts.image.data, layout.weights);
  parts.weights = std::move(layout.weights);
  parts.max_threads = team.MaxSize();
  if (options.progress) options.progress(1.0);
  return std::make_unique<LlamaModel>(std::move(parts));
}

}  // namespace tandem::model

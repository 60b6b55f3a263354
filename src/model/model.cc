#include "model/model.h"

#include <algorithm>

#include "base/hash.h"
#include "model/checkpoint.h"
#include "model/pack.h"
#include "model/packed_cache.h"
#include "model/transformer.h"
#include "model/weight_layout.h"

namespace tandem::model {
namespace {

constexpr int kMaxBlockTokens = 1024;

// Names a packed image: the weights it was made from and the order of its bytes.
std::string PackKey(const std::string& digest) {
  return fmt::format("{}-v{}", digest, kPackVersion);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const LoadOptions& options, Team& team) {
  if (options.block_tokens < 1 || options.block_tokens > kMaxBlockTokens)
    return Err(Code::kInvalidArgument, "block size {} is not between 1 and {}",
               options.block_tokens, kMaxBlockTokens);
  Transformer::Parts parts;
  TRY_ASSIGN(parts.ops, ChooseOps(options.force_isa));
  TRY_ASSIGN(parts.checkpoint, Checkpoint::Open(options.path, options.config_overrides));
  const ModelConfig& config = parts.checkpoint->config();
  TRY_ASSIGN(WeightLayout layout, LayOutWeights(*parts.checkpoint));
  const Widths widths(config);
  parts.kv_layout = {.layers = config.layer_count(),
                     .kv_heads = config.mla.latent > 0 ? 1 : config.kv_heads,
                     .k_dim = static_cast<int>(widths.head),
                     .v_dim = static_cast<int>(widths.value),
                     .block_tokens = options.block_tokens,
                     .dtype = options.kv_dtype};
  TRY_ASSIGN(parts.digest, parts.checkpoint->Digest(options.cache_dir));
  TRY_ASSIGN(parts.image, LoadPacked(layout.plan, PackKey(parts.digest), options.cache_dir, team,
                                     options.progress));
  Bind(parts.image.data, layout.weights);
  parts.weights = std::move(layout.weights);
  parts.max_threads = team.MaxSize();
  parts.positions = options.max_positions > 0 ? options.max_positions : config.context_length;
  if (options.progress) options.progress(1.0);
  return std::make_unique<Transformer>(std::move(parts));
}

}  // namespace tandem::model

// A loaded language model: weights plus the forward pass over a batch of sequences with paged KV.
// Shapes and the bit-exactness rules are in docs/contracts/numerics.md and kv-layout.md.
#ifndef TANDEM_MODEL_MODEL_H_
#define TANDEM_MODEL_MODEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/team.h"
#include "model/kv_layout.h"
#include "model/model_config.h"

namespace tandem::model {

using TokenId = int32_t;

// Consecutive tokens of one sequence in one step: a prefill chunk, or one decode token.
struct BatchSlice {
  std::span<const TokenId> tokens;
  int64_t start_position = 0;            // position of tokens[0]
  std::span<const BlockId> block_table;  // covers positions 0 .. start_position + tokens.size() - 1
  int logit_rows = 0;                    // logits wanted for the last n tokens of the slice
};

struct LoadOptions {
  std::string path{};              // as FindModelFiles takes it (model_files.h)
  std::string config_overrides{};  // JSON members that replace those of config.json
  int64_t max_positions = 0;       // that will be served; 0: what the model was trained for
  std::string cache_dir{};         // packed weights are kept here; empty: packed in memory only
  int block_tokens = 16;
  KvDtype kv_dtype = KvDtype::kFloat16;
  std::string force_isa{};                 // "", "plain", "avx2", "avx512": tests force a path
  std::function<void(double)> progress{};  // fraction 0..1, called on the loading thread
};

class Model {
 public:
  static Result<std::unique_ptr<Model>> Load(const LoadOptions& options, Team& team);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const KvLayout& kv_layout() const = 0;
  // Instruction-set path + KV dtype + kernel version: equal ids give equal bits.
  virtual std::string NumericsId() const = 0;
  // Names the weights and all that decides what they mean (hex): of a single file its SHA-256.
  virtual std::string WeightsDigest() const = 0;
  virtual size_t WeightBytes() const = 0;  // read per token at batch 1
  // Memory for steps of this many tokens, about max_tokens * (few times feed_forward) floats; call
  // once before Forward.
  virtual Status ReserveScratch(int max_tokens, int max_logit_rows) = 0;

  // Runs one step: writes K and V of every token into the arena, and logits, row by row in slice
  // order, to `logits` (rows x vocab floats). At most the reserved number of tokens; a team no
  // larger than the one given to Load. Checks `abort` (may be null) before each layer: if set,
  // stops and returns kCancelled (KV written so far is unspecified for these tokens only). One call
  // at a time. A token, block or size out of range is kInvalidArgument before anything is written.
  virtual Status Forward(std::span<const BatchSlice> slices, KvArena arena, Team& team,
                         std::span<float> logits, const std::atomic<bool>* abort) = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MODEL_H_

// The forward pass of a decoder-only transformer as its ModelConfig describes it: layers of
// attention and MLP (or experts) over a residual stream. One parallel region per layer.
#ifndef TANDEM_MODEL_TRANSFORMER_H_
#define TANDEM_MODEL_TRANSFORMER_H_

#include <memory>
#include <string>
#include <vector>

#include "model/attention.h"
#include "model/attention_block.h"
#include "model/checkpoint.h"
#include "model/kv_writer.h"
#include "model/latent_block.h"
#include "model/memory.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/moe_block.h"
#include "model/packed_cache.h"
#include "model/step.h"
#include "model/weights.h"

namespace tandem::model {

class Transformer final : public Model {
 public:
  struct Parts {
    std::unique_ptr<Checkpoint> checkpoint;
    KvLayout kv_layout;
    const Ops* ops = nullptr;
    Weights weights;  // bound to `image`
    PackedImage image;
    std::string digest;
    int max_threads = 1;
    int64_t positions = 0;  // that are served
  };
  explicit Transformer(Parts parts);

  const ModelConfig& config() const override { return config_; }
  const KvLayout& kv_layout() const override { return parts_.kv_layout; }
  std::string NumericsId() const override;
  std::string WeightsDigest() const override { return parts_.digest; }
  size_t WeightBytes() const override { return weight_bytes_; }
  Status ReserveScratch(int max_tokens, int max_logit_rows) override;
  Status Forward(std::span<const BatchSlice> slices, KvArena arena, Team& team,
                 std::span<float> logits, const std::atomic<bool>* abort) override;

 private:
  Status Check(std::span<const BatchSlice> slices, const KvArena& arena,
               std::span<const float> logits) const;
  void RunLayer(int index, TeamMember& member);
  void RunHead(TeamMember& member, std::span<float> logits);
  bool latent() const { return config_.mla.latent > 0; }
  size_t WidestInput() const;

  Parts parts_;
  const ModelConfig& config_;
  const Ops& ops_;
  const Widths widths_;
  Step step_;
  Attention attention_;
  const std::vector<int64_t> windows_;  // the distinct ones of all layers
  KvWriter writer_;
  AttentionBlock ordinary_;
  LatentBlock latent_;
  MlpBlock mlp_;
  MoeBlock moe_;
  size_t weight_bytes_ = 0;
  size_t max_tokens_ = 0;
  size_t max_logit_rows_ = 0;
  Mapping scratch_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TRANSFORMER_H_

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) in its absorbed form: the arena keeps
// one latent vector and one turned key per token, which all heads share. A head's query is taken
// into the latent space (key_up), attends there, and what it gathers is taken out again (value_up).
#ifndef TANDEM_MODEL_LATENT_BLOCK_H_
#define TANDEM_MODEL_LATENT_BLOCK_H_

#include "base/team.h"
#include "model/attention.h"
#include "model/carver.h"
#include "model/kv_writer.h"
#include "model/step.h"
#include "model/weights.h"

namespace tandem::model {

class LatentBlock {
 public:
  LatentBlock(const Step& step, Attention& attention, const KvWriter& writer)
      : step_(step), attention_(attention), writer_(writer) {}
  void Carve(Carver& carver, size_t max_tokens);
  // As AttentionBlock::Run.
  void Run(int index, const LayerWeights& layer, TeamMember& member) const;

 private:
  // The latent vectors and keys of all tokens, and their queries or what those are made from.
  void Down(const LayerWeights& layer, TeamMember& member) const;
  void StoreKeys(int index, const LatentWeights& weights, const TeamMember& member) const;
  void Queries(const LatentWeights& weights, const TeamMember& member, const Activations& x) const;
  void Absorb(const LatentWeights& weights, const TeamMember& member) const;
  void Release(const LatentWeights& weights, const TeamMember& member) const;
  size_t heads() const { return static_cast<size_t>(step_.config.heads); }

  const Step& step_;
  Attention& attention_;
  const KvWriter& writer_;
  float* query_down_ = nullptr;   // [tokens][query_latent]
  float* latent_ = nullptr;       // [tokens][latent + rope]: what is stored
  float* key_rope_ = nullptr;     // [tokens][rope, rounded up to panels]
  float* query_plain_ = nullptr;  // [tokens][heads][plain]
  float* query_rope_ = nullptr;   // [tokens][heads][rope], rounded up to panels
  float* queries_ = nullptr;      // [tokens][heads][latent + rope]
  float* attended_ = nullptr;     // [tokens][heads][latent]
  float* values_ = nullptr;       // [tokens][heads][value], rounded up to blocks
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_LATENT_BLOCK_H_

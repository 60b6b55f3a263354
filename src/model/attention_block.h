// Attention of a layer with queries, keys and values of their own: projections, norms of query and
// key heads, rotation, the KV arena, and the output projection.
#ifndef TANDEM_MODEL_ATTENTION_BLOCK_H_
#define TANDEM_MODEL_ATTENTION_BLOCK_H_

#include "base/team.h"
#include "model/attention.h"
#include "model/carver.h"
#include "model/kv_writer.h"
#include "model/step.h"
#include "model/weights.h"

namespace tandem::model {

class AttentionBlock {
 public:
  AttentionBlock(const Step& step, Attention& attention, const KvWriter& writer)
      : step_(step), attention_(attention), writer_(writer) {}
  void Carve(Carver& carver, size_t max_tokens);
  // On every thread of a region, when the residual is complete and attention has been told of the
  // layer. Afterwards, if the layer has rows: a barrier, then the residual is complete again.
  void Run(int index, const LayerWeights& layer, TeamMember& member) const;

 private:
  void Project(const LayerWeights& layer, const TeamMember& member, const Activations& x) const;
  // Norms and rotation of what Project left; keys and values go to the arena.
  void Turn(int index, const LayerWeights& layer, const TeamMember& member) const;
  void TurnHead(const RopeTable& rope, size_t token, const NormWeights& norm, float* head) const;
  size_t heads() const { return static_cast<size_t>(step_.config.heads); }
  size_t kv_heads() const { return static_cast<size_t>(step_.config.kv_heads); }
  float* Row(float* rows, size_t token, size_t heads) const {
    return rows + token * RoundUp(heads * step_.widths.head, kPanel);
  }

  const Step& step_;
  Attention& attention_;
  const KvWriter& writer_;
  // Rows are rounded up to whole panels, but for those of attention.
  float* projected_ = nullptr;  // [tokens][heads][head]
  float* keys_ = nullptr;       // [tokens][kv_heads][head]
  float* values_ = nullptr;     // [tokens][kv_heads][head]
  float* queries_ = nullptr;    // [tokens][heads][head], turned and scaled
  float* attended_ = nullptr;   // [tokens][heads][head]
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ATTENTION_BLOCK_H_

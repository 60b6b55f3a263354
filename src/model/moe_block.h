// A mixture of experts in place of a layer's MLP, with the experts that all tokens share. The rows
// of a step are sorted by expert, so that each expert's weights are read once for all its rows; a
// row's sum over experts has a fixed order, whatever else is in the step.
#ifndef TANDEM_MODEL_MOE_BLOCK_H_
#define TANDEM_MODEL_MOE_BLOCK_H_

#include <vector>

#include "base/team.h"
#include "model/carver.h"
#include "model/moe_routing.h"
#include "model/step.h"
#include "model/weights.h"

namespace tandem::model {

class MoeBlock {
 public:
  explicit MoeBlock(const Step& step) : step_(step) {}
  void Carve(Carver& carver, size_t max_tokens);
  // On every thread of a region, when the residual is complete; leaves it so at the region's end.
  void Run(const LayerWeights& layer, TeamMember& member);

 private:
  // The rows that one expert computes: entries [begin, end).
  struct Group {
    const MlpWeights* expert;
    size_t begin;
    size_t end;
  };
  size_t used() const { return static_cast<size_t>(step_.config.moe.used); }
  void Score(const MoeWeights& moe, const TeamMember& member, const Activations& x) const;
  void Route(const MoeWeights& moe, const TeamMember& member);
  // On one thread: entries by expert.
  void Sort(const MoeWeights& moe);
  void GateUp(const MoeWeights& moe, const TeamMember& member, const Activations& x) const;
  void QuantizeGated(const TeamMember& member) const;
  void Down(const TeamMember& member) const;
  void Combine(const MoeWeights& moe, const TeamMember& member) const;
  // Calls f(group, part of its panels) for the member's share of all groups' panels.
  template <class F>
  void ForEachShare(const TeamMember& member, size_t panels, F f) const;

  const Step& step_;
  float* scores_ = nullptr;       // [tokens][experts, rounded up to panels]
  float* shared_gate_ = nullptr;  // [tokens]
  float* gated_ = nullptr;    // [tokens * (used + 1)][inner]: the last tokens are the shared ones
  float* outputs_ = nullptr;  // [tokens * (used + 1)][residual]
  Activations inputs_;        // [tokens * used], sorted by expert
  Activations middle_;        // [tokens * (used + 1)]
  std::vector<ExpertChoice> choices_;  // [tokens][used]
  std::vector<size_t> entry_of_;       // [tokens][used]
  std::vector<size_t> row_of_;         // of each entry
  std::vector<Group> groups_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MOE_BLOCK_H_

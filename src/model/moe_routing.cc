#include "model/moe_routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/scalar_math.h"

namespace tandem::model {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void Softmax(std::span<float> values) {
  const float top = *std::ranges::max_element(values);
  float sum = 0.0F;
  for (float& value : values) {
    value = ExpOfNegative(value - top);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

// Takes the best scores one after the other; the taken ones become -inf.
size_t TakeBest(std::span<float> scores) {
  size_t best = 0;
  for (size_t i = 1; i < scores.size(); ++i)
    if (scores[i] > scores[best]) best = i;
  scores[best] = kNever;
  return best;
}

float WorthOf(std::span<const float> group, bool by_two) {
  float best = kNever;
  float second = kNever;
  for (const float score : group) {
    second = std::max(second, std::min(best, score));
    best = std::max(best, score);
  }
  return by_two && group.size() > 1 ? best + second : best;
}

// Only experts of the best groups stay eligible.
void LimitToGroups(const MoeConfig& config, std::span<float> scores) {
  const auto groups = static_cast<size_t>(config.groups);
  const size_t size = scores.size() / groups;
  if (groups <= 1 || size * groups != scores.size()) return;
  std::vector<float> worth;
  for (size_t g = 0; g < groups; ++g)
    worth.push_back(WorthOf(scores.subspan(g * size, size), config.group_by_two_best));
  std::vector<bool> chosen(groups, false);
  for (int i = 0; i < std::min(config.groups_used, config.groups); ++i)
    chosen[TakeBest(worth)] = true;
  for (size_t g = 0; g < groups; ++g)
    if (!chosen[g]) std::ranges::fill(scores.subspan(g * size, size), kNever);
}

}  // namespace

float Sigmoid(float x) {
  const float e = ExpOfNegative(x < 0 ? x : -x);
  return x < 0 ? e / (1.0F + e) : 1.0F / (1.0F + e);
}

void RouteToken(const MoeConfig& config, std::span<float> logits, std::span<const float> bias,
                std::span<ExpertChoice> choices) {
  if (config.sigmoid)
    for (float& logit : logits) logit = Sigmoid(logit);
  else
    Softmax(logits);
  std::vector<float> scores(logits.begin(), logits.end());
  for (size_t i = 0; i < bias.size(); ++i) scores[i] += bias[i];
  LimitToGroups(config, scores);
  for (ExpertChoice& choice : choices) choice.expert = static_cast<int32_t>(TakeBest(scores));
  std::ranges::sort(choices, {}, &ExpertChoice::expert);
  float sum = 0.0F;
  for (ExpertChoice& choice : choices) {
    choice.weight = logits[static_cast<size_t>(choice.expert)];
    sum += choice.weight;
  }
  const float factor = config.normalize ? config.scale / (sum + 1e-20F) : config.scale;
  for (ExpertChoice& choice : choices) choice.weight *= factor;
}

}  // namespace tandem::model

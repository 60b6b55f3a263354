#include "model/sampler.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "model/scalar_math.h"
#include "model/selection.h"

namespace tandem::model {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kLeastTemperature = 0.01F;
constexpr float kMaxBias = 100.0F;

bool IsGreedy(const SamplingParams& params) { return params.temperature <= 0.0F; }

bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.frequency_penalty != 0.0F ||
         params.presence_penalty != 0.0F;
}

bool ChangesLogits(const SamplingParams& params, const SamplingContext& context) {
  return !params.allowed_token_ids.empty() || !params.bad_words_token_ids.empty() ||
         static_cast<size_t>(params.min_tokens) > context.output.size() ||
         !params.logit_bias.empty() || HasPenalties(params);
}

// True when the output ends with everything of `word` but its last token.
bool EndsBeforeLast(std::span<const TokenId> output, std::span<const TokenId> word) {
  const std::span<const TokenId> start = word.first(word.size() - 1);
  return output.size() >= start.size() && std::ranges::equal(output.last(start.size()), start);
}

}  // namespace

Sampler::Sampler(int32_t vocab)
    : work_(static_cast<size_t>(vocab)),
      weights_(static_cast<size_t>(vocab)),
      counts_(static_cast<size_t>(vocab)) {
  CHECK(vocab >= 1);
}

SampledToken Sampler::Sample(const SamplingParams& params, const SamplingContext& context,
                             std::span<const float> logits) {
  CHECK(logits.size() == work_.size());
  SampledToken sampled;
  sampled.token = Choose(params, context, logits);
  if (params.logprobs) sampled.logprobs = ComputeLogprobs(logits, sampled.token, *params.logprobs);
  return sampled;
}

TokenId Sampler::Choose(const SamplingParams& params, const SamplingContext& context,
                        std::span<const float> logits) {
  const bool changed = ChangesLogits(params, context);
  if (IsGreedy(params) && !changed) return Argmax(logits);
  Process(params, context, logits);
  const bool left = IsGreedy(params) ? LargestOf(work_) > kMinusInfinity : Filter(params);
  if (!left) {
    std::ranges::copy(logits, work_.begin());
    KeepAllowed(params);
  }
  if (!left || IsGreedy(params)) return Argmax(work_);
  const double uniform = UniformDraw(context.seed, context.choice, context.position);
  return all_ ? DrawFromAll(uniform) : Draw(uniform);
}

std::vector<TokenProbability> Sampler::Distribution(const SamplingParams& params,
                                                    const SamplingContext& context,
                                                    std::span<const float> logits) {
  CHECK(logits.size() == work_.size());
  Process(params, context, logits);
  SamplingParams filters = params;
  if (IsGreedy(params)) {
    filters = SamplingParams{};
    filters.temperature = 1.0F;
  }
  std::vector<TokenProbability> distribution;
  if (!Filter(filters)) return distribution;
  if (all_) Collect(LargestOf(work_), kMinusInfinity);
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += double{candidate.weight};
  for (const Candidate& candidate : candidates_)
    distribution.push_back({candidate.token, candidate.logit, double{candidate.weight} / total});
  std::ranges::sort(distribution, {}, &TokenProbability::token);
  return distribution;
}

void Sampler::Process(const SamplingParams& params, const SamplingContext& context,
                      std::span<const float> logits) {
  std::ranges::copy(logits, work_.begin());
  if (!ChangesLogits(params, context)) return;
  KeepAllowed(params);
  MaskBadWords(params, context);
  if (static_cast<size_t>(params.min_tokens) > context.output.size()) {
    for (const TokenId token : params.eos_token_ids)
      work_[static_cast<size_t>(token)] = kMinusInfinity;
    for (const TokenId token : params.stop_token_ids)
      work_[static_cast<size_t>(token)] = kMinusInfinity;
  }
  for (const auto& [token, bias] : params.logit_bias)
    work_[static_cast<size_t>(token)] += std::clamp(bias, -kMaxBias, kMaxBias);
  if (HasPenalties(params)) Penalize(params, context);
}

void Sampler::KeepAllowed(const SamplingParams& params) {
  if (params.allowed_token_ids.empty()) return;
  for (const TokenId token : params.allowed_token_ids) counts_[static_cast<size_t>(token)] = 1;
  for (size_t i = 0; i < work_.size(); ++i)
    if (counts_[i] == 0) work_[i] = kMinusInfinity;
  for (const TokenId token : params.allowed_token_ids) counts_[static_cast<size_t>(token)] = 0;
}

void Sampler::MaskBadWords(const SamplingParams& params, const SamplingContext& context) {
  for (const std::vector<TokenId>& word : params.bad_words_token_ids)
    if (!word.empty() && EndsBeforeLast(context.output, word))
      work_[static_cast<size_t>(word.back())] = kMinusInfinity;
}

void Sampler::Penalize(const SamplingParams& params, const SamplingContext& context) {
  // A token's count is its occurrences in the output; the high bit says that repetition has already
  // been applied to it.
  constexpr uint32_t kRepeated = 0x80000000U;
  const auto repeat = [&](TokenId token) {
    // Prompts may hold ids that the model has no logit for, such as image placeholders.
    if (static_cast<size_t>(token) >= work_.size()) return;
    uint32_t& count = counts_[static_cast<size_t>(token)];
    if ((count & kRepeated) != 0) return;
    count |= kRepeated;
    float& logit = work_[static_cast<size_t>(token)];
    logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
  };
  if (params.repetition_penalty != 1.0F) {
    for (const TokenId token : context.prompt) repeat(token);
    for (const TokenId token : context.output) repeat(token);
    for (const TokenId token : context.prompt)
      if (static_cast<size_t>(token) < work_.size()) counts_[static_cast<size_t>(token)] = 0;
  }
  for (const TokenId token : context.output)
    if (static_cast<size_t>(token) < work_.size())
      counts_[static_cast<size_t>(token)] &= ~kRepeated;
  for (const TokenId token : context.output)
    if (static_cast<size_t>(token) < work_.size()) ++counts_[static_cast<size_t>(token)];
  for (const TokenId token : context.output) {
    if (static_cast<size_t>(token) >= work_.size()) continue;
    uint32_t& count = counts_[static_cast<size_t>(token)];
    if (count == 0) continue;
    float& logit = work_[static_cast<size_t>(token)];
    logit -= params.frequency_penalty * static_cast<float>(count);
    logit -= params.presence_penalty;
    count = 0;
  }
}

bool Sampler::Filter(const SamplingParams& params) {
  candidates_.clear();
  all_ = false;
  const float temperature = std::max(params.temperature, kLeastTemperature);
  // Infinite or undefined logits must not turn the weights into NaN.
  for (float& logit : work_) {
    const float scaled = std::min(logit / temperature, std::numeric_limits<float>::max());
    logit = logit > kMinusInfinity ? scaled : kMinusInfinity;
  }
  const float largest = LargestOf(work_);
  if (!(largest > kMinusInfinity)) return false;

  float threshold = kMinusInfinity;
  if (params.min_p > 0.0F)
    threshold = static_cast<float>(double{largest} + Log(double{params.min_p}));
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < work_.size();
  if (top_k)
    threshold = std::max(threshold, KthLargest(work_, static_cast<size_t>(params.top_k), values_));
  if (params.top_p < 1.0F) {
    KeepTopP(params.top_p, largest, threshold);
  } else if (threshold > kMinusInfinity) {
    Collect(largest, threshold);
  } else {
    ExpAll(work_, largest, weights_);
    all_ = true;
  }
  return true;
}

void Sampler::Collect(float largest, float threshold) {
  constexpr size_t kChunk = 256;
  candidates_.clear();
  for (size_t start = 0; start < work_.size(); start += kChunk) {
    const size_t end = std::min(start + kChunk, work_.size());
    if (LargestOf(std::span(work_).subspan(start, end - start)) < threshold) continue;
    for (size_t i = start; i < end; ++i) {
      if (work_[i] < threshold || !(work_[i] > kMinusInfinity)) continue;
      candidates_.push_back({static_cast<TokenId>(i), work_[i], ExpOfNegative(work_[i] - largest)});
    }
  }
}

// Drops the least likely of the tokens at or above `threshold`, and of equal ones those with higher
// ids first, as long as they and everything below them weigh at most 1 - top_p of the whole. The
// likeliest always stays.
void Sampler::KeepTopP(float top_p, float largest, float threshold) {
  // Tokens are first counted by their distance from the likeliest; only the ones in the bin that
  // the cut goes through need sorting.
  constexpr size_t kBins = 2048;
  constexpr float kBinsPerUnit = 64.0F;
  const auto bin_of = [&](float logit) {
    const float place = (largest - logit) * kBinsPerUnit;
    return place < static_cast<float>(kBins - 1) ? static_cast<size_t>(place) : kBins - 1;
  };
  const bool filtered = threshold > kMinusInfinity;
  std::array<double, kBins> bins = {};
  if (filtered) {
    Collect(largest, threshold);
    for (const Candidate& candidate : candidates_)
      bins[bin_of(candidate.logit)] += double{candidate.weight};
  } else {
    ExpAll(work_, largest, weights_);
    for (size_t i = 0; i < work_.size(); ++i) bins[bin_of(work_[i])] += double{weights_[i]};
  }
  double total = 0.0;
  for (const double bin : bins) total += bin;

  const float cut = 1.0F - top_p;
  double below = 0.0;
  size_t bin = kBins - 1;
  while (bin > 0 && static_cast<float>((below + bins[bin]) / total) <= cut) below += bins[bin--];
  if (!filtered)
    Collect(largest, bin < kBins - 1 ? largest - static_cast<float>(bin + 2) / kBinsPerUnit
                                     : kMinusInfinity);
  std::erase_if(candidates_, [&](const Candidate& c) { return bin_of(c.logit) > bin; });
  const auto edge = std::partition(candidates_.begin(), candidates_.end(),
                                   [&](const Candidate& c) { return bin_of(c.logit) < bin; });
  std::sort(edge, candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  while (candidates_.size() > 1) {
    below += double{candidates_.back().weight};
    if (static_cast<float>(below / total) > cut) break;
    candidates_.pop_back();
  }
}

TokenId Sampler::Draw(double uniform) const {
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += double{candidate.weight};
  const double target = uniform * total;
  double sum = 0.0;
  TokenId last = candidates_.front().token;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight <= 0.0F) continue;
    sum += double{candidate.weight};
    last = candidate.token;
    if (sum > target) break;
  }
  return last;
}

TokenId Sampler::DrawFromAll(double uniform) const {
  constexpr size_t kBlock = 512;
  const size_t size = weights_.size();
  const auto block_sum = [&](size_t start) {
    return SumOf(std::span(weights_).subspan(start, std::min(kBlock, size - start)));
  };
  double total = 0.0;
  for (size_t start = 0; start < size; start += kBlock) total += block_sum(start);
  const double target = uniform * total;
  double sum = 0.0;
  size_t start = 0;
  for (; start + kBlock < size; start += kBlock) {
    const double next = sum + block_sum(start);
    if (next > target) break;
    sum = next;
  }
  // Rounding may leave the target just beyond the last weight: then that one is taken.
  size_t last = start;
  for (size_t i = start; i < size; ++i) {
    if (weights_[i] <= 0.0F) continue;
    sum += double{weights_[i]};
    last = i;
    if (sum > target) break;
  }
  return static_cast<TokenId>(last);
}

}  // namespace tandem::model

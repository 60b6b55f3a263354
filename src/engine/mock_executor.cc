#include "engine/mock_executor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace tandem::engine {
namespace {

constexpr uint64_t kStart = 0x7461'6e64'656d'0001;

uint64_t Mix(uint64_t a, uint64_t b) {
  const std::array<uint64_t, 2> both{a, b};
  return Xxh3(std::as_bytes(std::span(both)));
}

}  // namespace

MockExecutor::MockExecutor(const MockOptions& options, int block_tokens, model::KvArena arena,
                           std::vector<TokenId> says)
    : options_(options), block_tokens_(block_tokens), arena_(arena), says_(std::move(says)) {
  CHECK(!says_.empty());
  CHECK(options_.block_bytes >= static_cast<size_t>(block_tokens) * sizeof(uint64_t));
}

std::byte* MockExecutor::Slot(std::span<const BlockId> blocks, int64_t position) const {
  const BlockId block = blocks[static_cast<size_t>(position / block_tokens_)];
  CHECK(block >= 0 && block < arena_.blocks);
  return arena_.base + static_cast<size_t>(block) * options_.block_bytes +
         static_cast<size_t>(position % block_tokens_) * sizeof(uint64_t);
}

Result<StepResult> MockExecutor::Run(const StepPlan& plan, const std::atomic<bool>& abort) {
  StepResult result;
  if (abort.load(std::memory_order_relaxed)) {
    result.aborted = true;
    return result;
  }
  for (const StepRow& row : plan.rows) {
    uint64_t value = kStart;
    if (row.start > 0) std::memcpy(&value, Slot(row.blocks, row.start - 1), sizeof(value));
    for (size_t i = 0; i < row.tokens.size(); ++i) {
      value = Mix(value, static_cast<uint64_t>(row.tokens[i]));
      std::memcpy(Slot(row.blocks, row.start + static_cast<int64_t>(i)), &value, sizeof(value));
    }
    const Sequence& sequence = *row.sequence;
    auto& samples = result.samples.emplace_back();
    for (int32_t i = 0; i < row.samples; ++i) {
      const int32_t choice = row.samples > 1 ? i : sequence.choice;
      samples.push_back(Sample(value, *sequence.request, choice));
    }
  }
  return result;
}

void MockExecutor::CopyBlock(BlockId from, BlockId to) {
  std::memcpy(arena_.base + static_cast<size_t>(to) * options_.block_bytes,
              arena_.base + static_cast<size_t>(from) * options_.block_bytes, options_.block_bytes);
}

Duration MockExecutor::ModelledTime(const StepPlan& plan) const {
  Duration time = options_.step;
  for (const StepRow& row : plan.rows)
    time += row.tokens.size() == 1
                ? options_.decode_token
                : options_.prefill_token * static_cast<int64_t>(row.tokens.size());
  return time;
}

uint64_t MockExecutor::Fingerprint(std::span<const TokenId> tokens) {
  uint64_t value = kStart;
  for (const TokenId token : tokens) value = Mix(value, static_cast<uint64_t>(token));
  return value;
}

TokenId MockExecutor::NextToken(uint64_t fingerprint, const Request& request,
                                int32_t choice) const {
  if (request.sampling.temperature > 0)
    fingerprint = Mix(fingerprint, request.seed + static_cast<uint64_t>(choice));
  const auto& allowed = request.sampling.allowed_token_ids;
  if (!allowed.empty()) return allowed[fingerprint % allowed.size()];
  return says_[fingerprint % says_.size()];
}

model::SampledToken MockExecutor::Sample(uint64_t fingerprint, const Request& request,
                                         int32_t choice) const {
  model::SampledToken sampled{.token = NextToken(fingerprint, request, choice), .logprobs = {}};
  if (!request.sampling.logprobs) return sampled;
  // The likeliest tokens are the sampled one and its successors, each half as likely.
  model::Logprobs logprobs;
  logprobs.chosen = {.token = sampled.token, .logprob = -0.6931472F, .rank = 1};
  const auto count = std::min(static_cast<size_t>(*request.sampling.logprobs), says_.size());
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i)
    logprobs.top.push_back({.token = i == 0 ? sampled.token : says_[static_cast<size_t>(i)],
                            .logprob = -0.6931472F * static_cast<float>(i + 1),
                            .rank = i + 1});
  sampled.logprobs = std::move(logprobs);
  return sampled;
}

}  // namespace tandem::engine

// What the scheduler knows about a request and its choices. Plain data; the scheduler keeps the
// invariants (docs/contracts/engine.md).
#ifndef TANDEM_ENGINE_SEQUENCE_H_
#define TANDEM_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/remote_kv.h"
#include "kv/block_hash.h"
#include "kv/ids.h"
#include "model/sampling_params.h"
#include "wire/messages.h"

namespace tandem::engine {

using kv::BlockId;
using kv::TokenId;

// Unique within an engine's life.
using RequestKey = uint64_t;
using PullId = uint64_t;

// Which leg of a disaggregated request this worker serves.
enum class Leg : uint8_t { kWhole, kPrefill, kDecode };

struct Request;

// One choice of a request: tokens, and the blocks that hold the KV of the first `computed` of them.
struct Sequence {
  enum class State : uint8_t { kWaiting, kPulling, kRunning, kFinished };

  Sequence(Request* owner, int32_t index, const kv::BlockHash& root, int block_tokens,
           std::string_view salt)
      : request(owner), choice(index), hasher(root, block_tokens, salt) {}

  void AppendTokens(std::span<const TokenId> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    hasher.Append(more);
  }
  int64_t Length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t Remaining() const { return Length() - computed; }

  Request* request;
  int32_t choice;
  State state = State::kWaiting;
  bool in_step = false;         // part of the plan that is being executed
  std::vector<TokenId> tokens;  // prompt, then output
  kv::SequenceHasher hasher;    // over tokens
  std::vector<BlockId> blocks;  // each holds one ref in the pool
  int64_t computed = 0;         // positions whose KV is in the blocks
  size_t published = 0;         // leading blocks that the prefix cache knows
  PullId pull = 0;              // while kPulling
};

// All of it belongs to the scheduler. Destroyed once every choice is finished and out of the step.
struct Request {
  RequestKey key = 0;
  uint64_t order = 0;  // of arrival
  Leg leg = Leg::kWhole;
  wire::GenerateRequest wire;
  model::SamplingParams sampling;
  uint64_t seed = 0;
  int64_t max_tokens = 0;          // per choice, cut to the room that max-model-len leaves
  std::optional<RemoteKv> remote;  // until used, refused or given up
  bool forked = false;
  bool ended = false;  // its end was reported; what is left is only cleaned up
  std::vector<std::unique_ptr<Sequence>> sequences;  // choice 0; all n after the fork

  int64_t PromptTokens() const { return static_cast<int64_t>(wire.prompt.size()); }
  // Rows of a step that this request may fill.
  int32_t Slots() const { return forked ? 1 : wire.n; }

  // Reported with the first item.
  bool reported = false;
  bool admitted = false;  // cached_tokens is that of the first admission
  int64_t cached_tokens = 0;
  int64_t pulled_tokens = 0;
  PullDone pulled;
  int64_t computed_prompt_tokens = 0;
  std::string fallback_reason;
};

// Scheduling order: priority, then arrival, then choice. The first of the running sequences is
// never preempted; the last one is preempted first.
struct SequenceOrder {
  bool operator()(const Sequence* a, const Sequence* b) const {
    const Request& ra = *a->request;
    const Request& rb = *b->request;
    if (ra.wire.priority != rb.wire.priority) return ra.wire.priority < rb.wire.priority;
    if (ra.order != rb.order) return ra.order < rb.order;
    return a->choice < b->choice;
  }
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_SEQUENCE_H_

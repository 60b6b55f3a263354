// How a waiting sequence gets its blocks: from the prefix cache, from a remote worker, or empty.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "engine/scheduler.h"

namespace tandem::engine {

// First come, first served: a head that does not fit is waited for, or it would never be served.
void Scheduler::AdmitWaiting(int64_t& budget) {
  while (!waiting_.empty() && !preempted_now_) {
    Sequence* sequence = *waiting_.begin();
    if (slots_used_ + sequence->request->Slots() > options_.max_num_seqs) return;
    if (budget <= 0 && !sequence->request->remote) return;
    if (!Admit(sequence)) return;
    if (sequence->state != Sequence::State::kRunning || budget <= 0) continue;
    const int64_t count = std::min(budget, sequence->Remaining());
    AddRow(sequence, count);
    budget -= count;
  }
}

// Full blocks that may come from the cache. Never the last token's: its logits are needed.
std::span<const kv::BlockHash> Scheduler::ReusablePrefix(const Sequence& sequence) const {
  return sequence.hasher.hashes().first(
      static_cast<size_t>((sequence.Length() - 1) / options_.block_tokens));
}

bool Scheduler::ReserveBlocks(Sequence* sequence, std::vector<BlockId>& blocks, size_t& hits) {
  const auto prefix = ReusablePrefix(*sequence);
  const auto total =
      static_cast<size_t>((sequence->Length() + options_.block_tokens - 1) / options_.block_tokens);
  // Each running sequence may need a block soon; admitting into the last ones only leads to
  // preemption. A prefill leg does not grow.
  const size_t fresh = total - pool_.CachedPrefix(prefix);
  const size_t headroom = sequence->request->leg == Leg::kPrefill ? 0 : running_.size();
  if (headroom > 0 && fresh + headroom > static_cast<size_t>(pool_.free_blocks())) return false;
  const auto reserved = pool_.Reserve(prefix, total, blocks);
  if (!reserved) return false;
  hits = *reserved;
  Request& request = *sequence->request;
  if (!request.admitted) {
    request.admitted = true;
    request.cached_tokens = static_cast<int64_t>(hits) * options_.block_tokens;
  }
  return true;
}

bool Scheduler::Admit(Sequence* sequence) {
  Request& request = *sequence->request;
  if (request.remote) {
    const size_t cached = pool_.CachedPrefix(ReusablePrefix(*sequence));
    const bool all_here =
        static_cast<int64_t>(cached) * options_.block_tokens >= sequence->Length() - 1;
    if (!all_here) return AdmitWithPull(sequence);
    ReleaseRemote(request);
  }
  size_t hits = 0;
  if (!ReserveBlocks(sequence, sequence->blocks, hits)) return false;
  sequence->computed = static_cast<int64_t>(hits) * options_.block_tokens;
  sequence->published = hits;
  waiting_.erase(sequence);
  slots_used_ += request.Slots();
  StartRunning(sequence);
  return true;
}

void Scheduler::StartRunning(Sequence* sequence) {
  sequence->state = Sequence::State::kRunning;
  running_.insert(sequence);
}

// All blocks of the request are reserved before the owner is asked for anything, so that a started
// pull never waits for memory.
bool Scheduler::AdmitWithPull(Sequence* sequence) {
  Request& request = *sequence->request;
  Pull pull{.sequence = sequence, .blocks = {}, .hits = 0};
  if (!ReserveBlocks(sequence, pull.blocks, pull.hits)) return false;
  // The last prompt token is computed here, so its position is not pulled.
  const auto needed = static_cast<size_t>((sequence->Length() - 1 + options_.block_tokens - 1) /
                                          options_.block_tokens);
  CHECK(needed <= request.remote->blocks.size() && pull.hits < needed);
  const PullId id = next_pull_++;
  TransferCommand command{.kind = TransferCommand::Kind::kPull,
                          .key = request.key,
                          .pull = id,
                          .remote_blocks = {},
                          .local_blocks = {}};
  const auto first = static_cast<std::ptrdiff_t>(pull.hits);
  const auto last = static_cast<std::ptrdiff_t>(needed);
  command.remote_blocks.assign(request.remote->blocks.begin() + first,
                               request.remote->blocks.begin() + last);
  command.local_blocks.assign(pull.blocks.begin() + first, pull.blocks.begin() + last);
  transfers_.push_back(std::move(command));
  pulls_.emplace(id, std::move(pull));
  waiting_.erase(sequence);
  slots_used_ += request.Slots();
  sequence->state = Sequence::State::kPulling;
  sequence->pull = id;
  return true;
}

namespace {

// A fixed set, so that the metric stays small.
std::string_view FallbackReason(Code code) {
  switch (code) {
    case Code::kStale:
      return "stale";
    case Code::kNotFound:
      return "expired";
    case Code::kConnectionLost:
      return "connection_lost";
    case Code::kUnavailable:
      return "unreachable";
    case Code::kIncompatible:
      return "incompatible";
    case Code::kDeadlineExceeded:
      return "deadline";
    case Code::kOverloaded:
      return "overloaded";
    case Code::kCorrupt:
      return "corrupt";
    default:
      return "error";
  }
}

}  // namespace

void Scheduler::PullFinished(PullId id, Result<PullDone> result) {
  const auto found = pulls_.find(id);
  CHECK(found != pulls_.end());
  Pull pull = std::move(found->second);
  pulls_.erase(found);
  if (result) {
    ++counters_.pulls;
    counters_.pulled_bytes += static_cast<uint64_t>(result->bytes);
  }
  Sequence* sequence = pull.sequence;
  if (sequence == nullptr) return pool_.Unref(pull.blocks);
  sequence->pull = 0;
  Request& request = *sequence->request;
  if (!result) {
    pool_.Unref(pull.blocks);
    slots_used_ -= request.Slots();
    sequence->state = Sequence::State::kWaiting;
    waiting_.insert(sequence);
    return GiveUpRemote(request, FallbackReason(result.error().code), result.error().message);
  }
  sequence->blocks = std::move(pull.blocks);
  sequence->published = pull.hits;
  sequence->computed = sequence->Length() - 1;
  request.pulled_tokens =
      sequence->computed - static_cast<int64_t>(pull.hits) * options_.block_tokens;
  request.pulled = *std::move(result);
  ForgetRemote(request);
  StartRunning(sequence);
  PublishBlocks(sequence);
}

void Scheduler::ExpireRemotes(MonoTime now) {
  while (!remote_deadlines_.empty() && remote_deadlines_.begin()->first <= now) {
    Request& request = *requests_.at(remote_deadlines_.begin()->second);
    Sequence* sequence = request.sequences.front().get();
    if (sequence->state == Sequence::State::kPulling) {
      DropPull(sequence);
      waiting_.insert(sequence);
    }
    GiveUpRemote(request, "deadline", "it did not come within four lease times");
  }
}

void Scheduler::GiveUpRemote(Request& request, std::string_view reason, std::string_view detail) {
  CountFallback(request, reason, detail);
  request.admitted = false;
  ReleaseRemote(request);
}

void Scheduler::CountFallback(Request& request, std::string_view reason, std::string_view detail) {
  request.fallback_reason = reason;
  if (++counters_.fallbacks[std::string(reason)] > 1) return;
  LOG_WARN(
      "the KV of request {} is not used ({}: {}): its prompt is computed here instead. Further "
      "cases "
      "are only counted in tandem_kv_fallbacks_total",
      request.wire.request_id, reason, detail);
}

void Scheduler::ReleaseRemote(Request& request) {
  transfers_.push_back({.kind = TransferCommand::Kind::kRelease,
                        .key = request.key,
                        .remote_blocks = {},
                        .local_blocks = {}});
  ForgetRemote(request);
}

void Scheduler::ForgetRemote(Request& request) {
  remote_deadlines_.erase({request.remote->give_up, request.key});
  request.remote.reset();
}

// The blocks stay with the pull until it reports its end: until then bytes may still arrive.
void Scheduler::DropPull(Sequence* sequence) {
  const PullId id = sequence->pull;
  pulls_.at(id).sequence = nullptr;
  transfers_.push_back({.kind = TransferCommand::Kind::kCancel,
                        .key = sequence->request->key,
                        .pull = id,
                        .remote_blocks = {},
                        .local_blocks = {}});
  sequence->pull = 0;
  sequence->state = Sequence::State::kWaiting;
  slots_used_ -= sequence->request->Slots();
}

}  // namespace tandem::engine

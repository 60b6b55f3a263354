#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "engine/sampling_glue.h"

namespace tandem::engine {

Scheduler::Scheduler(SchedulerOptions options, kv::LeaseTable* leases, CopyBlock copy_block)
    : options_(std::move(options)),
      leases_(leases),
      copy_block_(std::move(copy_block)),
      pool_({.blocks = options_.blocks,
             .block_tokens = options_.block_tokens,
             .prefix_caching = options_.prefix_caching}) {
  CHECK(options_.max_num_seqs > 0);
  CHECK(options_.max_num_batched_tokens >= options_.max_num_seqs);
  CHECK(options_.max_model_len <= int64_t{options_.blocks} * options_.block_tokens);
}

Scheduler::~Scheduler() = default;

Status Scheduler::Accept(const Submission& submission) const {
  const wire::GenerateRequest& request = submission.request;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (waiting_.size() >= static_cast<size_t>(options_.max_waiting))
    return Err(Code::kOverloaded,
               "{} requests are waiting already (--max-waiting); try again later", waiting_.size());
  if (prompt == 0) return FieldErr("prompt", "the prompt has no tokens");
  if (prompt >= options_.max_model_len)
    return Err(Code::kContextLength,
               "the prompt has {} tokens, and with at least one more for the answer that exceeds "
               "this worker's context of {} tokens (--max-model-len); shorten the prompt",
               prompt, options_.max_model_len);
  for (const TokenId token : request.prompt)
    if (token < 0 || token >= options_.vocab)
      return FieldErr("prompt", "token id {} is outside the vocabulary of {} tokens", token,
                      options_.vocab);
  if (request.n < 1 || request.n > options_.max_num_seqs)
    return FieldErr("n", "n is {}; this worker runs 1 to {} sequences at once (--max-num-seqs)",
                    request.n, options_.max_num_seqs);
  if (request.max_tokens < 1)
    return FieldErr("max_tokens", "max_tokens is {}; it must be at least 1", request.max_tokens);
  if (request.prompt_logprobs >= 0)
    return Err(Code::kUnsupported, "prompt_logprobs is not served; leave it out");
  if (submission.leg == Leg::kPrefill && leases_ == nullptr)
    return FieldErr("kv_transfer_params",
                    "this worker was started without --kv-transfer-config and cannot hand KV over");
  return model::ValidateSamplingParams(ToSamplingParams(request, options_.eos_ids), options_.vocab);
}

void Scheduler::Refuse(RequestKey key, Error error) {
  outputs_.push_back(
      {.key = key, .item = {}, .end = std::unexpected(std::move(error)), .granted = {}});
}

void Scheduler::Submit(Submission submission) {
  CHECK(!requests_.contains(submission.key));
  if (Status ok = Accept(submission); !ok) {
    if (submission.remote)
      transfers_.push_back({.kind = TransferCommand::Kind::kRelease,
                            .key = submission.key,
                            .remote_blocks = {},
                            .local_blocks = {}});
    return Refuse(submission.key, std::move(ok).error());
  }
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.key = submission.key;
  request.order = next_order_++;
  request.leg = submission.leg;
  request.wire = std::move(submission.request);
  if (request.leg == Leg::kPrefill) {
    // The decode worker samples all choices itself; here one token only ends the prefill.
    request.wire.n = 1;
    request.wire.max_tokens = 1;
    request.wire.min_tokens = 0;
  }
  request.sampling = ToSamplingParams(request.wire, options_.eos_ids);
  request.seed = request.sampling.seed.value_or(submission.seed);
  request.max_tokens =
      std::min<int64_t>(request.wire.max_tokens, options_.max_model_len - request.PromptTokens());
  auto sequence = std::make_unique<Sequence>(&request, 0, options_.root, options_.block_tokens,
                                             request.wire.cache_salt);
  sequence->AppendTokens(request.wire.prompt);
  waiting_.insert(sequence.get());
  request.sequences.push_back(std::move(sequence));
  requests_.emplace(request.key, std::move(owned));

  if (!submission.fallback_reason.empty())
    CountFallback(request, submission.fallback_reason,
                  "this worker was started without --kv-transfer-config");
  if (!submission.remote) return;
  request.remote = std::move(submission.remote);
  remote_deadlines_.emplace(request.remote->give_up, request.key);
  // What the prefill worker computed must be this very prompt's length; anything else is another
  // prompt's KV or damage on the way.
  const auto held = static_cast<int64_t>(request.remote->blocks.size()) * options_.block_tokens;
  if (request.remote->tokens != request.PromptTokens() || held < request.PromptTokens() - 1)
    GiveUpRemote(
        request, "mismatch",
        fmt::format("it holds {} tokens in {} blocks, the prompt has {}", request.remote->tokens,
                    request.remote->blocks.size(), request.PromptTokens()));
}

void Scheduler::Cancel(RequestKey key) {
  const auto found = requests_.find(key);
  if (found != requests_.end()) EndRequest(*found->second, std::nullopt);
}

void Scheduler::EndAll(const Error& reason) {
  std::vector<RequestKey> keys;
  for (const auto& [key, request] : requests_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (const RequestKey key : keys) EndRequest(*requests_.at(key), Status(std::unexpected(reason)));
}

void Scheduler::ReclaimLeases(MonoTime now) {
  if (leases_ == nullptr) return;
  leases_->Expire(now);
  for (const kv::FreedLease& freed : leases_->TakeFreed()) pool_.Unref(freed.blocks);
}

const StepPlan& Scheduler::Schedule(MonoTime now) {
  CHECK(!stepping_);
  plan_ = {};
  preempted_now_ = false;
  ReclaimLeases(now);
  ExpireRemotes(now);
  int64_t budget = options_.max_num_batched_tokens;
  PlanDecodes(budget);
  PlanPrefills(budget);
  AdmitWaiting(budget);
  if (!plan_.empty()) {
    stepping_ = true;
    ++counters_.steps;
    counters_.max_rows_in_step = std::max<uint64_t>(counters_.max_rows_in_step, plan_.rows.size());
  }
  return plan_;
}

// Rows with one token to compute. They come first: a running answer never waits for prompts.
void Scheduler::PlanDecodes(int64_t& budget) {
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence* sequence = *it;
    if (sequence->Remaining() == 1 && MakeRoom(sequence)) {
      AddRow(sequence, 1);
      --budget;
    }
    // MakeRoom may have preempted this sequence or later ones.
    it = running_.upper_bound(sequence);
  }
}

void Scheduler::PlanPrefills(int64_t& budget) {
  for (Sequence* sequence : running_) {
    if (budget <= 0) return;
    if (sequence->Remaining() == 1) continue;
    const int64_t count = std::min(budget, sequence->Remaining());
    AddRow(sequence, count);
    budget -= count;
  }
}

void Scheduler::AddRow(Sequence* sequence, int64_t count) {
  Request& request = *sequence->request;
  const bool reaches_end = count == sequence->Remaining();
  const bool forks = !request.forked && request.wire.n > 1;
  StepRow row{
      .sequence = sequence,
      .tokens = std::span(sequence->tokens)
                    .subspan(static_cast<size_t>(sequence->computed), static_cast<size_t>(count)),
      .start = sequence->computed,
      .blocks = sequence->blocks,
      .samples = !reaches_end ? 0
                 : forks      ? request.wire.n
                              : 1};
  sequence->in_step = true;
  plan_.tokens += count;
  plan_.sampled_rows += row.samples > 0 ? 1 : 0;
  plan_.rows.push_back(row);
}

// Makes the block at the next position writable, preempting from the end of the order if need be.
// False if the sequence cannot run in this step.
bool Scheduler::MakeRoom(Sequence* sequence) {
  const auto index = static_cast<size_t>(sequence->computed / options_.block_tokens);
  std::vector<BlockId>& blocks = sequence->blocks;
  while (true) {
    if (index == blocks.size()) {
      if (pool_.Allocate(1, blocks)) return true;
    } else if (const auto block = pool_.CopyOnWrite(blocks[index])) {
      if (*block != blocks[index]) copy_block_(blocks[index], *block);
      blocks[index] = *block;
      return true;
    }
    if (!Preempt(sequence)) return false;
  }
}

// Takes the blocks of the last running sequence. False if that is `for_whom` itself: then it waits
// in the queue, or keeps its place if it is the first of all (leases and pulls hold the rest, and
// they end).
bool Scheduler::Preempt(Sequence* for_whom) {
  Sequence* victim = *running_.rbegin();
  if (victim == *running_.begin()) {
    ++counters_.stalls;
    return false;
  }
  running_.erase(victim);
  slots_used_ -= victim->request->Slots();
  FreeBlocks(victim);
  victim->state = Sequence::State::kWaiting;
  waiting_.insert(victim);
  ++counters_.preemptions;
  preempted_now_ = true;
  return victim != for_whom;
}

void Scheduler::FreeBlocks(Sequence* sequence) {
  pool_.Unref(sequence->blocks);
  sequence->blocks.clear();
  sequence->computed = 0;
  sequence->published = 0;
}

MonoTime Scheduler::NextWake() const {
  MonoTime wake = leases_ == nullptr ? kNever : leases_->NextExpiry();
  if (!remote_deadlines_.empty()) wake = std::min(wake, remote_deadlines_.begin()->first);
  return wake;
}

SchedulerLoad Scheduler::load() const {
  SchedulerLoad load;
  load.running = static_cast<int64_t>(running_.size());
  load.waiting = static_cast<int64_t>(waiting_.size());
  load.requests = static_cast<int64_t>(requests_.size());
  for (const auto& [id, pull] : pulls_)
    ++(pull.sequence == nullptr ? load.zombie_pulls : load.waiting_for_kv);
  return load;
}

void Scheduler::CheckInvariants() const {
  std::vector<int64_t> refs(static_cast<size_t>(options_.blocks), 0);
  int32_t slots = 0;
  size_t running = 0;
  size_t waiting = 0;
  size_t pulling = 0;
  for (const auto& [key, request] : requests_) {
    CHECK(request->key == key);
    for (const auto& sequence : request->sequences) {
      for (const BlockId block : sequence->blocks) ++refs[static_cast<size_t>(block)];
      CHECK(sequence->computed <=
            static_cast<int64_t>(sequence->blocks.size()) * options_.block_tokens);
      CHECK(sequence->state == Sequence::State::kFinished || sequence->Remaining() > 0);
      switch (sequence->state) {
        case Sequence::State::kWaiting:
          CHECK(waiting_.contains(sequence.get()) && sequence->blocks.empty());
          ++waiting;
          break;
        case Sequence::State::kRunning:
          CHECK(running_.contains(sequence.get()));
          slots += request->Slots();
          ++running;
          break;
        case Sequence::State::kPulling:
          CHECK(pulls_.at(sequence->pull).sequence == sequence.get());
          slots += request->Slots();
          ++pulling;
          break;
        case Sequence::State::kFinished:
          CHECK(sequence->blocks.empty());
          break;
      }
    }
  }
  for (const auto& [id, pull] : pulls_) {
    if (pull.sequence != nullptr) CHECK(pull.sequence->pull == id);
    if (pull.sequence != nullptr) --pulling;
    for (const BlockId block : pull.blocks) ++refs[static_cast<size_t>(block)];
  }
  CHECK(pulling == 0 && running == running_.size() && waiting == waiting_.size());
  CHECK(slots == slots_used_ && slots_used_ <= options_.max_num_seqs);
  int64_t in_pool = 0;
  int64_t ours = 0;
  for (BlockId block = 0; block < options_.blocks; ++block) {
    const int64_t count = pool_.Refs(block);
    CHECK(count >= refs[static_cast<size_t>(block)]);
    in_pool += count;
    ours += refs[static_cast<size_t>(block)];
  }
  const auto leased = leases_ == nullptr ? 0 : static_cast<int64_t>(leases_->stats().leased_blocks);
  CHECK(in_pool == ours + leased);
}

}  // namespace tandem::engine

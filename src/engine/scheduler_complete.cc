// What a finished step means: blocks become reusable, choices fork, tokens go out, requests end.
#include <algorithm>

#include "base/check.h"
#include "engine/sampling_glue.h"
#include "engine/scheduler.h"

namespace tandem::engine {

void Scheduler::Complete(Result<StepResult> result, MonoTime now) {
  CHECK(stepping_);
  stepping_ = false;
  for (size_t i = 0; i < plan_.rows.size(); ++i) {
    const StepRow& row = plan_.rows[i];
    Sequence* sequence = row.sequence;
    Request& request = *sequence->request;
    sequence->in_step = false;
    if (request.ended) {
      FinishSequence(sequence);
      Reap(request);
    } else if (!result) {
      EndRequest(request, Status(std::unexpected(result.error())));
    } else if (!result->aborted) {
      CHECK(result->samples.size() == plan_.rows.size());
      if (!result->damaged.empty() && result->damaged[i] != 0) {
        EndRequest(request, Err(Code::kCorrupt,
                                "the model gave scores that are not numbers: its weights are "
                                "damaged; replace the model file"));
      } else {
        Advance(row, result->samples[i], now);
      }
    }
  }
  plan_ = {};
}

void Scheduler::Advance(const StepRow& row, std::vector<model::SampledToken>& samples,
                        MonoTime now) {
  CHECK(samples.size() == static_cast<size_t>(row.samples));
  Sequence* sequence = row.sequence;
  Request& request = *sequence->request;
  const auto count = static_cast<int64_t>(row.tokens.size());
  const int64_t of_prompt = std::clamp<int64_t>(request.PromptTokens() - row.start, 0, count);
  if (!request.reported) request.computed_prompt_tokens += of_prompt;
  counters_.prompt_tokens_computed += static_cast<uint64_t>(of_prompt);
  sequence->computed += count;
  PublishBlocks(sequence);
  if (row.samples == 0) return;
  if (row.samples == 1) return Emit(sequence, std::move(samples.front()), now);
  Fork(request);
  // Emit may end the request with the last of its choices, so the sequences are listed first.
  std::vector<Sequence*> choices;
  for (const auto& choice : request.sequences) choices.push_back(choice.get());
  for (size_t i = 0; i < choices.size(); ++i) Emit(choices[i], std::move(samples[i]), now);
}

// Full blocks whose KV is complete can serve other requests from now on.
void Scheduler::PublishBlocks(Sequence* sequence) {
  const auto full = static_cast<size_t>(sequence->computed / options_.block_tokens);
  for (; sequence->published < full; ++sequence->published)
    pool_.Publish(sequence->blocks[sequence->published],
                  sequence->hasher.hashes()[sequence->published]);
}

// All choices share the prompt's blocks; whoever writes to the partial last one first gets a copy.
void Scheduler::Fork(Request& request) {
  const Sequence& first = *request.sequences.front();
  request.forked = true;
  for (int32_t choice = 1; choice < request.wire.n; ++choice) {
    auto sequence = std::make_unique<Sequence>(first);
    sequence->choice = choice;
    pool_.Ref(sequence->blocks);
    running_.insert(sequence.get());
    request.sequences.push_back(std::move(sequence));
  }
}

wire::FinishReason Scheduler::FinishOf(const Sequence& sequence, TokenId token) const {
  const Request& request = *sequence.request;
  const int64_t output = sequence.Length() - request.PromptTokens();
  if (output >= request.wire.min_tokens) {
    const auto is = [token](std::span<const TokenId> ids) {
      return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    if (is(request.wire.stop_token_ids)) return wire::FinishReason::kStop;
    if (!request.wire.ignore_eos && is(options_.eos_ids)) return wire::FinishReason::kStop;
  }
  return output >= request.max_tokens ? wire::FinishReason::kLength : wire::FinishReason::kNone;
}

void Scheduler::FillFirstItem(Request& request, wire::GenerateItem& item) {
  request.reported = true;
  item.cached_tokens = static_cast<int32_t>(request.cached_tokens);
  item.pulled_tokens = static_cast<int32_t>(request.pulled_tokens);
  item.pulled_bytes = request.pulled.bytes;
  item.pull_seconds = request.pulled.seconds;
  item.pull_transport = request.pulled.transport;
  item.computed_prompt_tokens = static_cast<int32_t>(request.computed_prompt_tokens);
  item.fallback_reason = request.fallback_reason;
}

void Scheduler::Emit(Sequence* sequence, model::SampledToken sampled, MonoTime now) {
  Request& request = *sequence->request;
  const TokenId token = sampled.token;
  sequence->AppendTokens(std::span(&token, 1));
  ++counters_.generated_tokens;
  Output output{.key = request.key, .item = wire::GenerateItem(), .end = {}, .granted = {}};
  wire::GenerateItem& item = *output.item;
  item.choice = sequence->choice;
  item.tokens.push_back(token);
  if (sampled.logprobs) item.logprobs.push_back(ToWire(*sampled.logprobs));
  item.finish = FinishOf(*sequence, token);
  if (item.finish == wire::FinishReason::kStop) item.stop_token = token;
  if (!request.reported) FillFirstItem(request, item);
  if (item.finish == wire::FinishReason::kNone) return outputs_.push_back(std::move(output));

  if (request.leg == Leg::kPrefill) {
    if (Status granted = GrantLease(sequence, output, now); !granted)
      return EndRequest(request, std::move(granted));
  }
  outputs_.push_back(std::move(output));
  FinishSequence(sequence);
  const bool all_finished =
      std::all_of(request.sequences.begin(), request.sequences.end(),
                  [](const auto& other) { return other->state == Sequence::State::kFinished; });
  if (!all_finished) return;
  outputs_.back().end = Status();
  request.ended = true;
  Reap(request);
}

// The refs of the prompt's blocks pass from the sequence to the lease.
Status Scheduler::GrantLease(Sequence* sequence, Output& output, MonoTime now) {
  GrantedKv granted;
  granted.blocks = pool_.WithGenerations(sequence->blocks);
  granted.tokens = sequence->request->PromptTokens();
  TRY_ASSIGN(const auto lease,
             leases_->Grant(sequence->request->wire.request_id, granted.blocks, now));
  granted.lease = lease.lease;
  granted.expiry = lease.expiry;
  output.granted = std::move(granted);
  sequence->blocks.clear();
  sequence->computed = 0;
  return {};
}

void Scheduler::FinishSequence(Sequence* sequence) {
  switch (sequence->state) {
    case Sequence::State::kWaiting:
      waiting_.erase(sequence);
      break;
    case Sequence::State::kPulling:
      DropPull(sequence);
      break;
    case Sequence::State::kRunning:
      running_.erase(sequence);
      slots_used_ -= sequence->request->Slots();
      break;
    case Sequence::State::kFinished:
      return;
  }
  FreeBlocks(sequence);
  sequence->state = Sequence::State::kFinished;
}

void Scheduler::EndRequest(Request& request, std::optional<Status> report) {
  if (request.ended) return;
  request.ended = true;
  if (report)
    outputs_.push_back({.key = request.key, .item = {}, .end = std::move(report), .granted = {}});
  for (const auto& sequence : request.sequences)
    if (!sequence->in_step) FinishSequence(sequence.get());
  if (request.remote) ReleaseRemote(request);
  Reap(request);
}

// Frees the request itself once nothing refers to it any more.
void Scheduler::Reap(Request& request) {
  for (const auto& sequence : request.sequences)
    if (sequence->state != Sequence::State::kFinished) return;
  requests_.erase(request.key);
}

}  // namespace tandem::engine

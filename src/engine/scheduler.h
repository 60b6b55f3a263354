// The scheduler: which sequence runs when, and which block holds what. A pure state machine: no
// thread, no clock (times are arguments), no bytes. One thread calls it, and calls
//   Submit / Cancel / PullFinished ...   whenever something happened,
//   Schedule, then (if the plan is not empty) run it, then Complete,
//   TakeOutputs and TakeTransfers after any of these.
// Cancel and PullFinished may come between Schedule and Complete: blocks that the running step
// touches are given back at Complete.
//
// Invariants, checked by CheckInvariants and stated in docs/contracts/engine.md: every ref in the
// pool belongs to exactly one of a sequence, a pull or a lease; every request ends exactly once;
// the first running sequence is never preempted.
#ifndef TANDEM_ENGINE_SCHEDULER_H_
#define TANDEM_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/sequence.h"
#include "engine/step.h"
#include "kv/block_pool.h"
#include "kv/lease_table.h"
#include "wire/messages.h"

namespace tandem::engine {

struct SchedulerOptions {
  int32_t blocks = 0;
  int block_tokens = 16;
  bool prefix_caching = true;
  kv::BlockHash root{};
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 512;  // >= max_num_seqs
  int64_t max_model_len = 0;             // at most blocks x block_tokens
  int32_t max_waiting = 1024;
  int32_t vocab = 0;
  std::vector<TokenId> eos_ids;
};

// What a request produced. Items come in order; `end` is set on exactly one output per request, the
// last one.
struct Output {
  RequestKey key = 0;
  std::optional<wire::GenerateItem> item;
  std::optional<Status> end;
  // A prefill leg: the lease under which its blocks are kept; the engine writes the transfer
  // parameters of the item from it.
  std::optional<GrantedKv> granted;
};

// What the scheduler wants from the transfer side.
struct TransferCommand {
  enum class Kind : uint8_t {
    kPull,     // read remote_blocks into local_blocks, then PullFinished
    kCancel,   // the pull is no longer wanted; PullFinished is still due
    kRelease,  // the remote lease of this request is not needed any more
  };
  Kind kind = Kind::kPull;
  RequestKey key = 0;
  PullId pull = 0;
  std::vector<kv::BlockRef> remote_blocks;
  std::vector<BlockId> local_blocks;  // as many
};

struct SchedulerCounters {
  uint64_t preemptions = 0;
  uint64_t steps = 0;
  uint64_t max_rows_in_step = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t generated_tokens = 0;
  uint64_t pulls = 0;
  uint64_t pulled_bytes = 0;
  uint64_t stalls = 0;  // steps in which the first sequence had to wait for a block
  std::map<std::string, uint64_t, std::less<>> fallbacks;  // by reason; reasons are a fixed set
};

struct SchedulerLoad {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t waiting_for_kv = 0;
  int64_t requests = 0;      // alive, those being cleaned up included
  int64_t zombie_pulls = 0;  // cancelled pulls whose blocks are not back yet
};

class Scheduler {
 public:
  using CopyBlock = std::function<void(BlockId from, BlockId to)>;
  // `leases` may be null (no prefill legs then); it outlives the scheduler. `copy_block` is called
  // during Schedule.
  Scheduler(SchedulerOptions options, kv::LeaseTable* leases, CopyBlock copy_block);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  struct Submission {
    RequestKey key = 0;
    Leg leg = Leg::kWhole;
    wire::GenerateRequest request;
    std::optional<RemoteKv> remote;  // of a decode leg
    std::string fallback_reason;     // of a decode leg whose KV is given up already
    uint64_t seed = 0;               // used where the request has none
  };
  // A request that cannot be taken ends at once, through an output.
  void Submit(Submission submission);
  // Frees all that the request holds and reports nothing. Unknown keys are ignored: the request
  // may have ended already.
  void Cancel(RequestKey key);
  // The pull ended. Only here do its blocks become usable, or free.
  void PullFinished(PullId pull, Result<PullDone> result);

  // Plans the next step. Empty if there is nothing to compute now. The plan stays valid until
  // Complete.
  const StepPlan& Schedule(MonoTime now);
  // The plan ran. An error ends its requests.
  void Complete(Result<StepResult> result, MonoTime now);
  // Ends every request with `reason`.
  void EndAll(const Error& reason);

  std::vector<Output> TakeOutputs() { return std::exchange(outputs_, {}); }
  std::vector<TransferCommand> TakeTransfers() { return std::exchange(transfers_, {}); }

  // When Schedule should be called again though nothing happens; kNever if not at all.
  MonoTime NextWake() const;
  bool Stepping() const { return stepping_; }

  SchedulerLoad load() const;
  const SchedulerCounters& counters() const { return counters_; }
  const kv::BlockPool& pool() const { return pool_; }
  const SchedulerOptions& options() const { return options_; }
  // CHECKs everything that must hold between calls. Slow; for tests.
  void CheckInvariants() const;

 private:
  using SequenceSet = std::set<Sequence*, SequenceOrder>;
  struct Pull {
    Sequence* sequence = nullptr;  // null: nobody wants it any more
    std::vector<BlockId> blocks;   // all of the request's blocks, refs held here
    size_t hits = 0;               // leading ones that were in the prefix cache
  };

  // scheduler.cc
  Status Accept(const Submission& submission) const;
  void Refuse(RequestKey key, Error error);
  void ReclaimLeases(MonoTime now);
  void PlanDecodes(int64_t& budget);
  void PlanPrefills(int64_t& budget);
  void AddRow(Sequence* sequence, int64_t count);
  bool MakeRoom(Sequence* sequence);
  bool Preempt(Sequence* for_whom);
  void FreeBlocks(Sequence* sequence);

  // scheduler_admission.cc
  void AdmitWaiting(int64_t& budget);
  bool Admit(Sequence* sequence);
  bool AdmitWithPull(Sequence* sequence);
  bool ReserveBlocks(Sequence* sequence, std::vector<BlockId>& blocks, size_t& hits);
  std::span<const kv::BlockHash> ReusablePrefix(const Sequence& sequence) const;
  void StartRunning(Sequence* sequence);
  void GiveUpRemote(Request& request, std::string_view reason, std::string_view detail);
  void CountFallback(Request& request, std::string_view reason, std::string_view detail);
  void ExpireRemotes(MonoTime now);
  void DropPull(Sequence* sequence);
  void ReleaseRemote(Request& request);
  void ForgetRemote(Request& request);

  // scheduler_complete.cc
  void Advance(const StepRow& row, std::vector<model::SampledToken>& samples, MonoTime now);
  void PublishBlocks(Sequence* sequence);
  void Fork(Request& request);
  void Emit(Sequence* sequence, model::SampledToken sampled, MonoTime now);
  void FillFirstItem(Request& request, wire::GenerateItem& item);
  Status GrantLease(Sequence* sequence, Output& output, MonoTime now);
  wire::FinishReason FinishOf(const Sequence& sequence, TokenId token) const;
  void FinishSequence(Sequence* sequence);
  void EndRequest(Request& request, std::optional<Status> report);
  void Reap(Request& request);

  const SchedulerOptions options_;
  kv::LeaseTable* const leases_;
  const CopyBlock copy_block_;
  kv::BlockPool pool_;

  std::unordered_map<RequestKey, std::unique_ptr<Request>> requests_;
  SequenceSet waiting_;
  SequenceSet running_;
  int32_t slots_used_ = 0;  // by running and pulling sequences
  std::map<PullId, Pull> pulls_;
  std::set<std::pair<MonoTime, RequestKey>> remote_deadlines_;
  uint64_t next_order_ = 1;
  PullId next_pull_ = 1;

  StepPlan plan_;
  bool stepping_ = false;
  bool preempted_now_ = false;  // in this Schedule: then nothing is admitted

  std::vector<Output> outputs_;
  std::vector<TransferCommand> transfers_;
  SchedulerCounters counters_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_SCHEDULER_H_

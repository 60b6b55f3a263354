// The engine around a scheduler: requests with their deadlines and cancellations on the loop, a
// driver that runs the steps, the two ends of the hand-over. Native and mock engine differ only in
// what they put in: executor, arena, identity (native_engine.h, mock_engine.h).
#ifndef TANDEM_ENGINE_ENGINE_CORE_H_
#define TANDEM_ENGINE_ENGINE_CORE_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/metrics.h"
#include "engine/driver.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/step.h"
#include "engine/transfer_json.h"
#include "engine/transfer_side.h"
#include "engine/worker_options.h"
#include "kv/lease_table.h"
#include "rt/scope.h"
#include "xfer/arena.h"

namespace tandem::engine {

struct EngineCoreOptions {
  Role role = Role::kAggregated;
  SchedulerOptions scheduler;
  std::optional<TransferOptions> transfer;  // absent: no hand-over of KV
  bool own_thread = true;                   // false: steps take modelled time on the loop
  Labels labels;                            // of its metrics
};

class EngineCore final : public Engine {
 public:
  // `executor` works on `arena`. Metrics outlive the engine.
  EngineCore(rt::Runtime& runtime, Metrics& metrics, EngineCoreOptions options, xfer::Arena arena,
             std::unique_ptr<Executor> executor);
  ~EngineCore() override;

  // Opens the side channel; kUnavailable or kInvalidArgument where it cannot.
  Status Start();

  void Submit(wire::GenerateRequest request, MonoTime deadline, rt::CancelToken cancel,
              EngineSink sink) override;
  void Release(const std::string& request_id) override;
  EngineStats Stats() const override;
  rt::Task<void> Stop() override;

  const SchedulerOptions& scheduler_options() const { return options_.scheduler; }
  // "" without one.
  std::string side_channel() const;

 private:
  struct Live {
    EngineSink sink;
    std::string request_id;
    MonoTime arrival;
    MonoTime last_item;
    bool first_seen = false;
    rt::CancelRegistration on_cancel;
    std::unique_ptr<rt::Timer> deadline;
  };
  struct RequestMetrics;

  Result<ParsedTransfer> ParseLeg(const wire::GenerateRequest& request) const;
  rt::Task<void> TouchArena();
  void Drop(RequestKey key, Error reason);
  void Deliver(Delivery delivery);
  void DeliverOutput(Output output, MonoTime now);
  void ObserveItem(Live& live, const wire::GenerateItem& item, MonoTime now);
  void Remember(const std::string& request_id, kv::LeaseId lease);

  rt::Runtime& runtime_;
  const EngineCoreOptions options_;
  const size_t max_live_;
  const std::unique_ptr<RequestMetrics> metrics_;
  xfer::Arena arena_;
  const std::unique_ptr<Executor> executor_;
  std::unique_ptr<kv::LeaseTable> leases_;  // with a transfer configuration
  std::unique_ptr<TransferSide> transfer_;  // likewise
  RequestKey next_key_ = 1;
  bool stopping_ = false;
  std::unordered_map<RequestKey, Live> live_;
  // Leases granted lately, oldest first, for Release. Ended ones among them do no harm.
  std::deque<std::pair<std::string, kv::LeaseId>> granted_;
  std::unique_ptr<Driver> driver_;  // its thread uses executor and leases
  rt::TaskScope background_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_ENGINE_CORE_H_

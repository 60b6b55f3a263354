#include "engine/engine_core.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "engine/transfer_json.h"

namespace tandem::engine {
namespace {

// Enough for every lease that can be held at once and as many that ended lately.
constexpr size_t kMaxGranted = 8192;

// Of the arena; most requests of a small model fit.
constexpr size_t kTouchedBytes = size_t{256} << 20;

std::vector<double> LongSeconds() {
  return {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640};
}

std::string_view FinishName(wire::FinishReason reason) {
  switch (reason) {
    case wire::FinishReason::kStop:
      return "stop";
    case wire::FinishReason::kLength:
      return "length";
    case wire::FinishReason::kError:
      return "error";
    default:
      return "abort";
  }
}

Labels With(Labels labels, wire::FinishReason reason) {
  labels.emplace_back("finished_reason", FinishName(reason));
  return labels;
}

}  // namespace

struct EngineCore::RequestMetrics {
  RequestMetrics(Metrics& metrics, const Labels& labels)
      : ttft(metrics.GetHistogram("vllm:time_to_first_token_seconds",
                                  "From a request's arrival at this engine to its first token.",
                                  LatencySecondsBounds(), labels)),
        itl(metrics.GetHistogram("vllm:inter_token_latency_seconds",
                                 "Between two tokens of one choice.", LatencySecondsBounds(),
                                 labels)),
        e2e(metrics.GetHistogram("vllm:e2e_request_latency_seconds",
                                 "From a request's arrival at this engine to its end.",
                                 LongSeconds(), labels)),
        cancelled(metrics.GetCounter("tandem_engine_cancelled_requests_total",
                                     "Requests dropped: client gone or deadline passed.", labels)),
        refused(metrics.GetCounter("tandem_engine_refused_requests_total",
                                   "Requests refused on arrival: wrong or too many.", labels)) {
    for (const auto reason : {wire::FinishReason::kStop, wire::FinishReason::kLength,
                              wire::FinishReason::kAbort, wire::FinishReason::kError})
      finished[static_cast<size_t>(reason)] = &metrics.GetCounter(
          "vllm:request_success_total", "Choices that ended, by reason.", With(labels, reason));
  }

  Histogram& ttft;
  Histogram& itl;
  Histogram& e2e;
  Counter& cancelled;
  Counter& refused;
  std::array<Counter*, 5> finished{};
};

EngineCore::EngineCore(rt::Runtime& runtime, Metrics& metrics, EngineCoreOptions options,
                       xfer::Arena arena, std::unique_ptr<Executor> executor)
    : runtime_(runtime),
      options_(std::move(options)),
      max_live_(static_cast<size_t>(options_.scheduler.max_waiting) +
                static_cast<size_t>(options_.scheduler.max_num_seqs)),
      metrics_(std::make_unique<RequestMetrics>(metrics, options_.labels)),
      arena_(std::move(arena)),
      executor_(std::move(executor)),
      background_(runtime) {
  if (options_.transfer) {
    leases_ = std::make_unique<kv::LeaseTable>(kv::LeaseTable::Options{
        .incarnation = runtime.Random() | 1, .lease = options_.transfer->lease});
    transfer_ =
        std::make_unique<TransferSide>(runtime, arena_, *leases_, *options_.transfer, metrics,
                                       [this](PullId pull, Result<PullDone> result) {
                                         driver_->PullFinished(pull, std::move(result));
                                       });
  }
  const bool grants = options_.transfer && options_.transfer->serve;
  auto scheduler = std::make_unique<Scheduler>(
      options_.scheduler, grants ? leases_.get() : nullptr,
      [this](BlockId from, BlockId to) { executor_->CopyBlock(from, to); });
  const auto make = options_.own_thread ? MakeThreadDriver : MakeTimedDriver;
  driver_ = make(runtime, {metrics, options_.labels}, std::move(scheduler), *executor_,
                 [this](Delivery delivery) { Deliver(std::move(delivery)); });
  if (leases_ != nullptr) leases_->SetOnFreed([this] { driver_->Wake(); });
}

EngineCore::~EngineCore() = default;

Status EngineCore::Start() {
  if (transfer_ != nullptr) TRY(transfer_->Start());
  if (options_.own_thread) background_.Spawn(TouchArena());
  return {};
}

// The first touch of a page costs more than computing or copying what goes into it. So the blocks
// that are given out first get their pages in the background, a little at a time.
rt::Task<void> EngineCore::TouchArena() {
  constexpr size_t kPiece = size_t{4} << 20;
  const std::span<std::byte> first(arena_.data(), std::min(arena_.bytes(), kTouchedBytes));
  for (size_t at = 0; at < first.size() && !background_.Token().Cancelled(); at += kPiece) {
    const auto piece = first.subspan(at, std::min(kPiece, first.size() - at));
    bool touched = false;
    co_await runtime_.RunBlocking(
        [&] { touched = madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) == 0; });
    if (!touched) co_return;  // an old kernel, or no memory: the pages come when they are needed
  }
}

Result<ParsedTransfer> EngineCore::ParseLeg(const wire::GenerateRequest& request) const {
  TRY_ASSIGN(ParsedTransfer parsed, ParseTransfer(request.kv_transfer_params));
  if (options_.role == Role::kPrefill && parsed.leg != Leg::kPrefill)
    return FieldErr("kv_transfer_params",
                    "this is a prefill worker: it takes only requests with do_remote_decode true; "
                    "send others to a decode or aggregated worker");
  if (options_.role == Role::kDecode && parsed.leg == Leg::kPrefill)
    return FieldErr("kv_transfer_params",
                    "this is a decode worker: send requests with do_remote_decode to a prefill or "
                    "aggregated worker");
  return parsed;
}

void EngineCore::Submit(wire::GenerateRequest request, MonoTime deadline, rt::CancelToken cancel,
                        EngineSink sink) {
  const auto refuse = [&](Error error) {
    metrics_->refused.Add();
    sink.on_done(std::unexpected(std::move(error)));
  };
  if (cancel.Cancelled()) return refuse(cancel.Reason());
  if (stopping_) return refuse({Code::kUnavailable, "this worker is shutting down", {}});
  if (live_.size() >= max_live_)
    return refuse(
        {Code::kOverloaded,
         fmt::format("{} requests are under way on this worker, its limit (--max-num-seqs "
                     "and --max-waiting); try again later",
                     live_.size()),
         {}});
  auto parsed = ParseLeg(request);
  if (!parsed) return refuse(std::move(parsed).error());

  const RequestKey key = next_key_++;
  Scheduler::Submission submission{.key = key,
                                   .leg = parsed->leg,
                                   .request = std::move(request),
                                   .remote = {},
                                   .fallback_reason = {},
                                   .seed = runtime_.Random()};
  if (parsed->leg == Leg::kDecode) {
    if (transfer_ != nullptr) {
      submission.remote = transfer_->Begin(key, *std::move(parsed->remote));
    } else {
      // Started without --kv-transfer-config.
      submission.fallback_reason = "not_configured";
    }
  }
  const MonoTime now = runtime_.Now();
  Live& live = live_[key];
  live.sink = std::move(sink);
  live.request_id = submission.request.request_id;
  live.arrival = now;
  live.last_item = now;
  live.on_cancel = cancel.OnCancel([this, key, cancel] { Drop(key, cancel.Reason()); });
  if (deadline != kNever)
    live.deadline = runtime_.RunAt(deadline, [this, key] {
      Drop(key, {Code::kDeadlineExceeded, "the request's deadline passed", {}});
    });
  driver_->Submit(std::move(submission));
}

// The client is gone or out of time: everything is told at once, the step at its next layer.
void EngineCore::Drop(RequestKey key, Error reason) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  Live live = std::move(found->second);
  live_.erase(found);
  metrics_->cancelled.Add();
  driver_->Cancel(key);
  if (transfer_ != nullptr) transfer_->Abandon(key);
  live.sink.on_done(std::unexpected(std::move(reason)));
}

void EngineCore::Release(const std::string& request_id) {
  std::vector<RequestKey> keys;
  for (const auto& [key, live] : live_)
    if (live.request_id == request_id) keys.push_back(key);
  for (const RequestKey key : keys) Drop(key, {Code::kCancelled, "released", {}});
  std::erase_if(granted_, [&](const auto& granted) {
    if (granted.first != request_id) return false;
    leases_->Release(granted.second);
    return true;
  });
}

void EngineCore::Remember(const std::string& request_id, kv::LeaseId lease) {
  if (granted_.size() >= kMaxGranted) granted_.pop_front();
  granted_.emplace_back(request_id, lease);
}

void EngineCore::Deliver(Delivery delivery) {
  const MonoTime now = runtime_.Now();
  for (TransferCommand& command : delivery.transfers)
    if (transfer_ != nullptr) transfer_->Execute(std::move(command));
  for (Output& output : delivery.outputs) DeliverOutput(std::move(output), now);
}

void EngineCore::DeliverOutput(Output output, MonoTime now) {
  const auto found = live_.find(output.key);
  if (found == live_.end()) {
    // Dropped while this was on its way: nobody will come for the lease.
    if (output.granted) leases_->Release(output.granted->lease);
    return;
  }
  if (output.granted) {
    output.item->kv_transfer_params =
        transfer_->Describe(*output.granted, found->second.request_id);
    Remember(found->second.request_id, output.granted->lease);
  }
  if (!output.end) {
    ObserveItem(found->second, *output.item, now);
    return found->second.sink.on_item(*std::move(output.item));
  }
  Live live = std::move(found->second);
  live_.erase(found);
  if (output.item) {
    ObserveItem(live, *output.item, now);
    live.sink.on_item(*std::move(output.item));
  }
  if (*output.end) {
    metrics_->e2e.Observe(ToSeconds(now - live.arrival));
  } else {
    metrics_->finished[static_cast<size_t>(wire::FinishReason::kError)]->Add();
  }
  live.sink.on_done(*std::move(output.end));
}

void EngineCore::ObserveItem(Live& live, const wire::GenerateItem& item, MonoTime now) {
  if (!live.first_seen) {
    live.first_seen = true;
    metrics_->ttft.Observe(ToSeconds(now - live.arrival));
  } else if (item.choice == 0) {
    metrics_->itl.Observe(ToSeconds(now - live.last_item));
  }
  if (item.choice == 0) live.last_item = now;
  if (item.finish != wire::FinishReason::kNone)
    metrics_->finished[static_cast<size_t>(item.finish)]->Add();
}

EngineStats EngineCore::Stats() const {
  EngineStats stats = driver_->Stats();
  if (leases_ == nullptr) return stats;
  const kv::LeaseStats leases = leases_->stats();
  stats.leases = static_cast<int64_t>(leases.leases + leases.draining);
  stats.pins = static_cast<int64_t>(leases.pins);
  stats.leases_granted = leases.granted;
  stats.leases_expired = leases.expired;
  stats.remote_holds = static_cast<int64_t>(transfer_->holds());
  stats.transfer_connections = static_cast<int64_t>(transfer_->connections());
  return stats;
}

std::string EngineCore::side_channel() const {
  return transfer_ == nullptr ? "" : transfer_->side_channel();
}

rt::Task<void> EngineCore::Stop() {
  stopping_ = true;
  background_.Cancel();
  const Error reason{Code::kUnavailable, "this worker is shutting down", {}};
  driver_->EndAll(reason);
  if (transfer_ != nullptr) co_await transfer_->Stop();
  co_await driver_->Stop();
  co_await background_.Join();
  // Whatever the scheduler did not get to see any more.
  while (!live_.empty()) {
    Live live = std::move(live_.begin()->second);
    live_.erase(live_.begin());
    live.sink.on_done(std::unexpected(reason));
  }
}

}  // namespace tandem::engine

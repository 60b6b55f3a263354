#include "router/generation.h"

#include <utility>

#include "base/error_table.h"
#include "router/router.h"

namespace tandem::router {
namespace {

// What a prefill worker is asked, as the reference's pull connector expects it.
constexpr std::string_view kAskPrefill =
    R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null})";

// The request itself is at fault, or its time is over: another worker would say the same.
bool EndsTheRequest(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kTooLarge:
    case Code::kContextLength:
    case Code::kUnsupported:
    case Code::kDeadlineExceeded:
    case Code::kCancelled:
      return true;
    default:
      return false;
  }
}

}  // namespace

class Generation::Lease {
 public:
  Lease(Router& router, Router::Channel channel, std::string request_id)
      : router_(router), channel_(std::move(channel)), request_id_(std::move(request_id)) {}
  ~Lease() {
    if (channel_) router_.ReleaseLater(std::move(channel_), std::move(request_id_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // The decode worker has collected, and released it with its Close.
  void Collected() { channel_.reset(); }

 private:
  Router& router_;
  Router::Channel channel_;
  std::string request_id_;
};

Generation::Generation(Router& router, wire::GenerateRequest request, MonoTime deadline,
                       rt::CancelToken cancel)
    : router_(router),
      request_(std::move(request)),
      deadline_(deadline),
      cancel_(std::move(cancel)),
      choices_left_(request_.n) {}

Generation::~Generation() = default;

rt::Task<Result<std::optional<wire::GenerateItem>>> Generation::Next() {
  if (!started_) {
    started_ = true;
    CO_TRY(co_await Start());
  }
  while (true) {
    auto payload = co_await stream_->Next();
    if (payload && *payload) co_return Accept(**payload);
    if (payload && choices_left_ == 0) co_return std::nullopt;
    Error error = payload
                      ? Error{Code::kConnectionLost, "the worker ended its answer too early", {}}
                      : std::move(payload).error();
    CO_TRY(Retry(std::move(error)));
  }
}

rt::Task<Status> Generation::Start() {
  CO_TRY_ASSIGN(const ModelGroup* group, router_.table().Find(request_.model));
  request_.model = group->name;
  switch (group->topology()) {
    case Topology::kDisaggregated:
      role_ = Role::kDecode;
      CO_TRY(router_.table().CheckPairs(*group));
      CO_TRY(co_await RunPrefillLeg());
      break;
    case Topology::kDecodeAlone:
      role_ = Role::kDecode;
      CO_TRY(FallBack("no_prefill_worker"));
      break;
    case Topology::kAggregated:
    case Topology::kNone:  // Find has refused it
      break;
  }
  co_return StartServing(0);
}

rt::Task<Status> Generation::RunPrefillLeg() {
  const MonoTime begin = router_.runtime().Now();
  uint64_t failed = 0;
  std::string reason = "no_prefill_worker";
  for (int attempt = 0; attempt < 2; ++attempt) {
    // Looked up again: the table may have changed while the first attempt ran.
    CO_TRY_ASSIGN(const ModelGroup* group, router_.table().Find(request_.model));
    const Worker* worker = router_.table().Pick(
        *group, Role::kPrefill, {.except = failed, .paired = true, .prompt = request_.prompt});
    if (worker == nullptr) break;
    if (attempt > 0) {
      ++facts_.retries;
      router_.CountRetry(request_.model, Role::kPrefill);
    }
    failed = worker->id();
    facts_.prefill_worker = worker->id();
    connector_ = worker->connector();
    auto params = co_await Prefill(worker->instance);
    facts_.prefill_time = router_.runtime().Now() - begin;
    if (params) {
      request_.kv_transfer_params = *std::move(params);
      if (!request_.kv_transfer_params.empty()) co_return Status();
      reason = "nothing_kept";
      break;
    }
    lease_.reset();
    if (EndsTheRequest(params.error().code)) co_return std::unexpected(std::move(params).error());
    router_.NoteFailure(failed, params.error());
    reason = fmt::format("prefill_{}", CodeName(params.error().code));
  }
  lease_.reset();
  co_return FallBack(reason);
}

rt::Task<Result<std::string>> Generation::Prefill(wire::Instance instance) {
  CO_TRY_ASSIGN(Router::Channel channel, router_.ChannelTo(instance));
  wire::GenerateRequest leg = request_;
  leg.n = 1;
  leg.max_tokens = 1;
  leg.min_tokens = 0;
  leg.logprobs = -1;
  leg.prompt_logprobs = -1;
  leg.kv_transfer_params = kAskPrefill;
  lease_ = std::make_unique<Lease>(router_, channel, request_.request_id);
  const auto stream =
      channel->Start(wire::kMethodGenerate, wire::Encode(leg),
                     {.deadline = deadline_, .cancel = cancel_, .request_id = request_.request_id});
  std::string params;
  while (true) {
    CO_TRY_ASSIGN(const auto payload, co_await stream->Next());
    if (!payload) co_return params;
    CO_TRY_ASSIGN(wire::GenerateItem item, wire::DecodeGenerateItem(*payload));
    if (!item.kv_transfer_params.empty()) params = std::move(item.kv_transfer_params);
  }
}

Status Generation::FallBack(std::string_view reason) {
  if (router_.options().enforce_disagg)
    return Err(Code::kUnavailable,
               "no prefill worker could take the request ({}) and --enforce-disagg forbids "
               "computing the prompt on a decode worker",
               reason);
  facts_.fallback = reason;
  router_.CountFallback(request_.model, reason);
  return {};
}

Status Generation::StartServing(uint64_t except) {
  TRY_ASSIGN(const ModelGroup* group, router_.table().Find(request_.model));
  const bool carries_kv = !request_.kv_transfer_params.empty();
  const Worker* worker = router_.table().Pick(*group, role_,
                                              {.except = except,
                                               .connector = carries_kv ? &connector_ : nullptr,
                                               .prompt = request_.prompt});
  if (worker == nullptr)
    return Err(Code::kUnavailable, "no {}{} worker of '{}' is left for the request",
               except == 0 ? "" : "other ", RoleName(role_), request_.model);
  facts_.serving_worker = worker->id();
  TRY_ASSIGN(channel_, router_.ChannelTo(worker->instance));
  stream_ = channel_->Start(
      wire::kMethodGenerate, wire::Encode(request_),
      {.deadline = deadline_, .cancel = cancel_, .request_id = request_.request_id});
  return {};
}

Result<wire::GenerateItem> Generation::Accept(const wire::Bytes& payload) {
  TRY_ASSIGN(wire::GenerateItem item, wire::DecodeGenerateItem(payload));
  if (item.choice < 0 || item.choice >= request_.n)
    return Err(Code::kCorrupt, "the worker answered for choice {} of {}", item.choice, request_.n);
  if (item.finish == wire::FinishReason::kError)
    return Err(Code::kInternal, "the worker could not finish the request; its log says why");
  tokens_ += static_cast<int64_t>(item.tokens.size());
  if (item.finish != wire::FinishReason::kNone) --choices_left_;
  if (!std::exchange(seen_item_, true)) {
    if (!item.fallback_reason.empty()) {
      facts_.fallback = "pull_" + item.fallback_reason;
      router_.CountFallback(request_.model, facts_.fallback);
    } else if (lease_) {
      lease_->Collected();
    }
    lease_.reset();
    if (item.pulled_bytes > 0) router_.CountPull(request_.model, item);
  }
  return item;
}

Status Generation::Retry(Error error) {
  stream_.reset();
  router_.NoteFailure(facts_.serving_worker, error);
  if (tokens_ > 0) {
    if (error.code == Code::kConnectionLost)
      error.message =
          fmt::format("the worker was lost after {} tokens ({})", tokens_, error.message);
    return std::unexpected(std::move(error));
  }
  if (!RowOf(error.code).retry_elsewhere) return std::unexpected(std::move(error));
  if (!std::exchange(retried_, true)) {
    const uint64_t failed = facts_.serving_worker;
    if (const Status again = StartServing(failed); again) {
      ++facts_.retries;
      router_.CountRetry(request_.model, role_);
      return {};
    }
    facts_.serving_worker = failed;
  }
  if (error.code != Code::kConnectionLost) return std::unexpected(std::move(error));
  return Err(Code::kUnavailable,
             "the worker was lost before its first token and no other could take the request ({})",
             error.message);
}

}  // namespace tandem::router

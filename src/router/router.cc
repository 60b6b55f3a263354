#include "router/router.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/log.h"

namespace tandem::router {
namespace {

constexpr Duration kReleaseTimeout = std::chrono::seconds(2);
constexpr Duration kArtifactTimeout = std::chrono::seconds(60);
constexpr size_t kMaxReasons = 200;
constexpr double kLongestPullSeconds = 24 * 3600;

// Reasons come from workers too; a label must stay short and plain.
std::string Plain(std::string_view reason) {
  std::string out;
  for (const char c : reason.substr(0, 60)) {
    const bool keep = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    out.push_back(keep ? c : '_');
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Router>> Router::Create(rt::Runtime& runtime, cluster::Discovery& discovery,
                                               Metrics& metrics, RouterOptions options) {
  TRY_ASSIGN(auto picker, MakePicker(options.mode, [&runtime] { return runtime.Random(); }));
  return std::unique_ptr<Router>(
      new Router(runtime, discovery, metrics, std::move(options), std::move(picker)));
}

Router::Router(rt::Runtime& runtime, cluster::Discovery& discovery, Metrics& metrics,
               RouterOptions options, std::unique_ptr<Picker> picker)
    : runtime_(runtime),
      metrics_(metrics),
      options_(std::move(options)),
      table_(
          {.inhibit = options_.inhibit, .only_model = options_.only_model}, std::move(picker),
          [&runtime] { return runtime.Now(); }, metrics),
      scope_(runtime) {
  watch_ = discovery.WatchInstances(
      options_.ns,
      [this](const std::vector<wire::Instance>& instances) { OnInstances(instances); });
}

Router::~Router() = default;

void Router::OnInstances(const std::vector<wire::Instance>& instances) {
  table_.Update(instances);
  if (on_change_) on_change_();
  std::erase_if(channels_, [&](const auto& entry) {
    return std::none_of(instances.begin(), instances.end(),
                        [&](const wire::Instance& instance) { return instance.id == entry.first; });
  });
}

void Router::SetOnChange(std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  on_change_();
}

std::unique_ptr<Generation> Router::Generate(wire::GenerateRequest request, MonoTime deadline,
                                             rt::CancelToken cancel) {
  request.request_id.reserve(request.trace_id.size() + 17);
  request.request_id = request.trace_id;
  request.request_id.push_back('-');
  AppendHex(runtime_.Random(), request.request_id);
  return std::make_unique<Generation>(*this, std::move(request), deadline, std::move(cancel));
}

Result<Router::Channel> Router::ChannelTo(const wire::Instance& instance) {
  const auto found = channels_.find(instance.id);
  if (found != channels_.end()) return found->second;
  auto address = rt::Address::Parse(instance.address);
  if (!address)
    return Err(Code::kUnavailable, "worker {:x} has the address '{}': {}", instance.id,
               instance.address, address.error().message);
  auto channel = std::make_shared<net::RpcChannel>(runtime_, *std::move(address));
  channels_.emplace(instance.id, channel);
  return channel;
}

void Router::ReleaseLater(Channel channel, std::string request_id) {
  metrics_
      .GetCounter("tandem_frontend_releases_total",
                  "Prefill leases ended because no decode worker collected them")
      .Add();
  scope_.Spawn(Release(std::move(channel), std::move(request_id)));
}

rt::Task<void> Router::Release(Channel channel, std::string request_id) {
  const auto stream = channel->Start(
      wire::kMethodRelease, wire::Encode(wire::ReleaseRequest{request_id}),
      {.deadline = runtime_.Now() + kReleaseTimeout, .cancel = {}, .request_id = request_id});
  while (true) {
    const auto item = co_await stream->Next();
    // A lost release is made good by the lease's expiry.
    if (!item) LOG_DEBUG("release of {}: {}", request_id, item.error().message);
    if (!item || !*item) co_return;
  }
}

rt::Task<Result<std::string>> Router::FetchArtifact(std::string model, std::string digest,
                                                    size_t max_bytes, rt::CancelToken cancel) {
  std::vector<wire::Instance> sources;
  for (const Worker* worker : table_.Workers())
    if (worker->instance.card.name == model && worker->excluded.empty())
      sources.push_back(worker->instance);
  Error last{Code::kUnavailable, fmt::format("no worker of '{}' is registered", model), {}};
  for (const wire::Instance& source : sources) {
    auto channel = ChannelTo(source);
    auto bytes = channel ? co_await FetchFrom(*channel, digest, max_bytes, cancel)
                         : Result<std::string>(std::unexpected(channel.error()));
    if (bytes) co_return bytes;
    last = std::move(bytes).error();
    if (cancel.Cancelled()) break;
    NoteFailure(source.id, last);
    LOG_WARN("worker {:x} of '{}' could not send the file {}: {}", source.id, model, digest,
             last.message);
  }
  co_return std::unexpected(std::move(last));
}

rt::Task<Result<std::string>> Router::FetchFrom(Channel channel, std::string digest,
                                                size_t max_bytes, rt::CancelToken cancel) {
  const auto stream = channel->Start(
      wire::kMethodArtifact, wire::Encode(wire::ArtifactRequest{digest}),
      {.deadline = runtime_.Now() + kArtifactTimeout, .cancel = cancel, .request_id = {}});
  std::string bytes;
  while (true) {
    CO_TRY_ASSIGN(const auto piece, co_await stream->Next());
    if (!piece) break;
    if (piece->size() > max_bytes - bytes.size())
      co_return Err(Code::kTooLarge, "the file {} has more than {} bytes", digest, max_bytes);
    bytes.append(reinterpret_cast<const char*>(piece->data()), piece->size());
  }
  if (Hex(Sha256(bytes)) != digest)
    co_return Err(Code::kCorrupt, "the file {} arrived with another digest", digest);
  co_return bytes;
}

rt::Task<void> Router::Stop() {
  watch_.reset();
  co_await scope_.Join();
  channels_.clear();
}

void Router::CountFallback(std::string_view model, std::string_view reason) {
  const std::string plain = Plain(reason);
  metrics_
      .GetCounter("tandem_frontend_fallbacks_total",
                  "Requests whose prompt was computed on a decode worker, by reason",
                  {{"model", std::string(model)}, {"reason", plain}})
      .Add();
  if (said_.size() >= kMaxReasons || !said_.insert(plain).second) return;
  LOG_WARN(
      "'{}': the decode worker computes the prompt itself ({}). Said once; "
      "tandem_frontend_fallbacks_total counts. Remedy: start prefill workers and look at their "
      "logs",
      model, plain);
}

void Router::CountRetry(std::string_view model, Role role) {
  metrics_
      .GetCounter("tandem_frontend_retries_total",
                  "Legs of requests that were tried again on another worker",
                  {{"model", std::string(model)}, {"role", std::string(RoleName(role))}})
      .Add();
}

void Router::CountPull(std::string_view model, const wire::GenerateItem& item) {
  const Labels labels = {{"model", std::string(model)}, {"transport", Plain(item.pull_transport)}};
  metrics_
      .GetCounter("tandem_frontend_kv_pulled_bytes_total", "KV bytes that decode workers pulled",
                  labels)
      .Add(static_cast<uint64_t>(item.pulled_bytes));
  // One bad number from a worker would spoil the sum for good.
  if (!(item.pull_seconds >= 0 && item.pull_seconds <= kLongestPullSeconds)) return;
  metrics_
      .GetHistogram("tandem_frontend_kv_pull_seconds", "Time of a KV pull", TransferSecondsBounds(),
                    labels)
      .Observe(item.pull_seconds);
}

void Router::NoteFailure(uint64_t instance, const Error& error) {
  if (error.code == Code::kConnectionLost || error.code == Code::kUnavailable)
    table_.Inhibit(instance);
}

}  // namespace tandem::router

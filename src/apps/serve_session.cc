#include "apps/serve_session.h"

#include <unistd.h>

#include <cstdio>

#include "apps/process_options.h"
#include "base/log.h"
#include "net/http_client.h"
#include "wire/json.h"

namespace tandem::apps {
namespace {

constexpr Duration kAskPoll = std::chrono::milliseconds(10);
constexpr Duration kAskTimeout = std::chrono::seconds(2);
constexpr Duration kKillGrace = std::chrono::seconds(3);
constexpr size_t kMaxPageBytes = 1 << 20;

std::string FirstModel(std::string_view body) {
  const auto json = wire::ParseJson(body);
  if (!json) return {};
  const wire::Json* data = json->Find("data");
  if (data == nullptr || !data->IsArray() || data->AsArray().empty()) return {};
  const wire::Json* id = data->AsArray().front().Find("id");
  return id != nullptr && id->IsString() ? id->AsString() : std::string();
}

size_t InstancesOf(std::string_view body) {
  const auto json = wire::ParseJson(body);
  if (!json) return 0;
  const wire::Json* instances = json->Find("instances");
  return instances != nullptr && instances->IsArray() ? instances->AsArray().size() : 0;
}

}  // namespace

rt::Address ReachableAddress(rt::Address address) {
  if (address.host == "0.0.0.0") address.host = "127.0.0.1";
  if (address.host == "::") address.host = "::1";
  return address;
}

ServeSession::ServeSession(rt::Runtime& runtime, const ParsedOptions& parsed,
                           std::optional<hub::ResolvedModel> model, rt::CancelToken stop)
    : runtime_(runtime),
      parsed_(parsed),
      model_(std::move(model)),
      stop_(std::move(stop)),
      // A child gets its own time to drain, and a little more before it is killed.
      grace_(kKillGrace +
             Seconds(parsed.command() == kServe ? parsed.Number("drain-timeout") : 0.5)),
      progress_(isatty(STDERR_FILENO) != 0),
      supervisor_(
          runtime, [this](const std::string& line) { OnLog(line); }, [this] { OnChange(); }),
      ended_(runtime) {}

ServeSession::~ServeSession() = default;

Status ServeSession::Start() {
  TRY_ASSIGN(folder_, PrivateFolder::Make());
  TRY_ASSIGN(plan_, MakeServePlan(parsed_, folder_->path(), model_));
  for (PlannedChild& child : plan_.children)
    children_.push_back(&supervisor_.Add(child.name, std::move(child.spec)));
  runtime_.Spawn(Supervise());
  return {};
}

rt::Task<void> ServeSession::Supervise() {
  outcome_ = co_await supervisor_.Run(stop_, grace_);
  progress_.Clear();
  folder_.reset();
  ended_.Set();
}

void ServeSession::OnLog(const std::string& line) { progress_.Line(line); }

void ServeSession::OnChange() {
  SupervisedChild& frontend = *children_.front();
  // A restarted frontend keeps the port that clients know, also where the kernel chose it.
  if (frontend.ready && frontend.restarts == 0) {
    if (const auto address = rt::Address::Parse(frontend.address))
      for (const std::string& word : {std::string("--http-port"), std::to_string(address->port)})
        frontend.spec.arguments.push_back(word);
  }
  if (!serving_) ShowProgress();
}

void ServeSession::ShowProgress() {
  double sum = 0;
  for (const SupervisedChild* child : children_)
    if (child != children_.front()) sum += child->load_fraction;
  progress_.Show("loading the model", sum / static_cast<double>(children_.size() - 1));
}

rt::Task<std::string> ServeSession::Page(rt::Address address, std::string target) {
  net::HttpClient client(runtime_, address);
  net::HttpClientRequest request;
  request.target = std::move(target);
  request.deadline = runtime_.Now() + kAskTimeout;
  request.cancel = stop_;
  request.max_body_bytes = kMaxPageBytes;
  auto response = co_await client.Send(std::move(request));
  if (!response || response->status != 200) co_return std::string();
  co_return std::move(response->body);
}

rt::Task<std::string> ServeSession::AskModelName(rt::Address address) {
  // Workers are ready before the frontend has found them all, and a model is listed when the first
  // of them is found.
  const size_t workers = children_.size() - 1;
  if (InstancesOf(co_await Page(address, "/health")) < workers) co_return std::string();
  co_return FirstModel(co_await Page(address, "/v1/models"));
}

rt::Task<Result<Served>> ServeSession::WaitServing() {
  Served served;
  served.shape = plan_.shape;
  while (!ended_.IsSet() && !stop_.Cancelled()) {
    if (supervisor_.AllReady()) {
      auto address = rt::Address::Parse(children_.front()->address);
      if (!address) co_return std::unexpected(address.error());
      served.address = ReachableAddress(*address);
      served.url = "http://" + served.address.ToString();
      served.model = co_await AskModelName(served.address);
      if (!served.model.empty()) {
        serving_ = true;
        progress_.Clear();
        co_return served;
      }
    }
    (void)co_await runtime_.Sleep(kAskPoll, stop_);
  }
  (void)co_await ended_.Wait();
  if (!outcome_) co_return std::unexpected(outcome_.error());
  co_return Err(Code::kCancelled, "stopped before the model was loaded");
}

rt::Task<Status> ServeSession::WaitEnded() {
  (void)co_await ended_.Wait();
  co_return outcome_;
}

}  // namespace tandem::apps

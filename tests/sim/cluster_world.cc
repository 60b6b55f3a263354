#include "cluster_world.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/worker_service.h"
#include "frontend/frontend.h"
#include "net/http_client.h"
#include "wire/json.h"

namespace tandem::cluster_sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kPrompts = 20;
constexpr int kLongest = 40;
constexpr std::array<std::pair<std::string_view, engine::Role>, 4> kCluster = {
    {{"p0", engine::Role::kPrefill},
     {"p1", engine::Role::kPrefill},
     {"d0", engine::Role::kDecode},
     {"d1", engine::Role::kDecode}}};

engine::WorkerOptions MockOptions(const std::string& name, engine::Role role) {
  engine::WorkerOptions options;
  options.engine = engine::EngineKind::kMock;
  options.served_name = "mock";
  options.role = role;
  options.mock.vocab = 1000;
  options.mock.block_bytes = 128;
  options.num_gpu_blocks_override = 300;
  options.max_num_seqs = 32;
  options.transports = {"tcp"};
  options.side_channel_host = name;
  options.system_port = 0;
  engine::KvTransferConfig transfer;
  transfer.kv_connector = "NixlConnector";
  transfer.kv_role = "kv_both";
  transfer.lease = kLease;
  options.kv_transfer = std::move(transfer);
  return options;
}

}  // namespace

WorkerProcess::WorkerProcess(rt::SimRuntime& sim, cluster::MemHub& hub, std::string name,
                             engine::Role role)
    : name_(std::move(name)), role_(role), host_(sim.AddHost(name_)), discovery_(hub.Open(host_)) {
  host_.Spawn(Run(name_));
}

rt::Task<void> WorkerProcess::Run(std::string host_name) {
  const Status status = co_await engine::RunWorker({.runtime = host_,
                                                    .discovery = *discovery_,
                                                    .metrics = metrics_,
                                                    .on_load_progress = [](double) {},
                                                    .on_ready =
                                                        [this](const wire::Instance& instance) {
                                                          instance_ = instance;
                                                          ready_ = true;
                                                        }},
                                                   MockOptions(host_name, role_), {});
  CHECK(status.has_value());
}

World::World(uint64_t seed)
    : sim_(seed),
      hub_(sim_, seconds(3)),
      frontend_(sim_.AddHost("frontend")),
      client_(sim_.AddHost("client")),
      discovery_(hub_.Open(frontend_)) {
  rt::SimLink link;
  link.latency = std::chrono::microseconds(80);
  link.jitter = std::chrono::microseconds(60);
  sim_.SetDefaultLink(link);
  frontend_.Spawn(Serve());
  sim_.RunUntil([this] { return address_.port != 0; }, seconds(1));
}

World::~World() = default;

rt::Task<void> World::Serve() {
  frontend::FrontendOptions options;
  options.port = 0;
  options.worker_inhibit = seconds(1);
  const Status status = co_await frontend::RunFrontend(
      {.runtime = frontend_,
       .discovery = *discovery_,
       .metrics = metrics_,
       .on_ready = [this](const rt::Address& address) { address_ = address; }},
      std::move(options), {});
  CHECK(status.has_value());
}

void World::StartWorker(const std::string& name, engine::Role role) {
  workers_.push_back(std::make_unique<WorkerProcess>(sim_, hub_, name, role));
}

WorkerProcess& World::Current(const std::string& name) {
  const auto found = std::find_if(workers_.rbegin(), workers_.rend(),
                                  [&](const auto& worker) { return worker->name() == name; });
  CHECK(found != workers_.rend());
  return **found;
}

std::string World::Body(const ClientRequest& request) const {
  std::string ids;
  const int length = 20 + 17 * request.prompt;
  for (int i = 0; i < length; ++i)
    ids += fmt::format("{}{}", i == 0 ? "" : ",", (i * 7 + request.prompt * 131) % 256);
  return fmt::format(R"({{"prompt":[{}],"max_tokens":{},"temperature":0,"ignore_eos":true,)"
                     R"("return_token_ids":true,"stream":{}}})",
                     ids, request.max_tokens, request.stream);
}

void World::Read(ClientRequest& request, std::string_view body) const {
  const auto take = [&](std::string_view text) {
    const auto json = wire::ParseJson(text);
    CHECK(json.has_value());
    if (json->Find("error") != nullptr) {
      request.error_event = true;
      return;
    }
    for (const wire::Json& choice : json->Find("choices")->AsArray())
      for (const wire::Json& id : choice.Find("token_ids")->AsArray())
        request.tokens.push_back(static_cast<wire::TokenId>(id.AsInt()));
  };
  if (!request.stream) {
    take(body);
    ++request.ends;
    return;
  }
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    if (end == std::string_view::npos) break;
    const std::string_view data = body.substr(6, end - 6);
    if (data == "[DONE]")
      ++request.ends;
    else
      take(data);
    body.remove_prefix(end + 2);
  }
}

rt::Task<void> World::RunClient(ClientRequest* request, MonoTime when) {
  (void)co_await client_.SleepUntil(when);
  net::HttpClient client(client_, address_);
  rt::CancelSource leave;
  std::unique_ptr<rt::Timer> timer;
  if (request->leaves)
    timer = client_.RunAt(when + milliseconds(Below(150)), [&leave] { leave.Cancel(); });
  net::HttpClientRequest send;
  send.method = "POST";
  send.target = "/v1/completions";
  send.headers = {{"content-type", "application/json"},
                  {"x-request-id", request->id},
                  {"x-request-timeout-ms", std::to_string(ToMillis(request->timeout))}};
  send.body = Body(*request);
  send.cancel = leave.Token();
  std::string body;
  send.on_body = [&body](std::string_view piece) { body += piece; };
  auto response = co_await client.Send(std::move(send));
  if (!response) {
    request->broken = true;
    ++request->ends;
  } else {
    request->status = response->status;
    if (response->status == 200)
      Read(*request, body);
    else
      ++request->ends;
  }
  --open_;
}

rt::Task<void> World::MakeTrouble(MonoTime until) {
  const std::array<std::string, 5> names = {"p0", "p1", "d0", "d1", "frontend"};
  while (client_.Now() < until) {
    (void)co_await client_.Sleep(milliseconds(200 + Below(1200)));
    const std::string& name = names[Below(4)];
    switch (Below(4)) {
      case 0:
      case 1: {
        WorkerProcess& worker = Current(name);
        if (!worker.host().Alive()) break;
        worker.host().Kill(Below(3) == 0 ? rt::KillMode::kMachine : rt::KillMode::kProcess);
        ++kills_;
        (void)co_await client_.Sleep(milliseconds(Below(1500)));
        StartWorker(name, worker.role());
        break;
      }
      case 2: {
        const std::string& other = names[Below(5)];
        if (other == name) break;
        sim_.Partition(name, other);
        ++partitions_;
        (void)co_await client_.Sleep(milliseconds(100 + Below(6000)));
        sim_.Heal(name, other);
        break;
      }
      default:
        sim_.ResetConnections(name, names[Below(5)]);
    }
  }
  sim_.HealAll();
}

void World::RecordAnswers() {
  StartWorker("reference", engine::Role::kAggregated);
  sim_.RunUntil([this] { return workers_.back()->Ready(); }, seconds(10));
  sim_.RunFor(milliseconds(200));
  for (int prompt = 0; prompt < kPrompts; ++prompt) {
    ClientRequest request;
    request.id = fmt::format("reference-{}", prompt);
    request.prompt = prompt;
    request.max_tokens = kLongest;
    request.timeout = seconds(60);
    ++open_;
    client_.Spawn(RunClient(&request, client_.Now()));
    sim_.RunUntil([this] { return open_ == 0; }, seconds(60));
    CHECK(request.status == 200 && request.tokens.size() == kLongest);
    answers_[prompt] = std::move(request.tokens);
  }
  workers_.back()->host().Kill();
  sim_.RunFor(seconds(10));
}

void World::Run(int count, Duration span, bool faults) {
  for (const auto& [name, role] : kCluster) StartWorker(std::string(name), role);
  sim_.RunUntil(
      [this] {
        return std::all_of(kCluster.begin(), kCluster.end(), [this](const auto& entry) {
          return Current(std::string(entry.first)).Ready();
        });
      },
      seconds(10));
  sim_.RunFor(milliseconds(500));
  const MonoTime begin = client_.Now();
  for (int i = 0; i < count; ++i) {
    auto request = std::make_unique<ClientRequest>();
    request->id = fmt::format("request-{}", i);
    request->prompt = static_cast<int>(Below(kPrompts));
    request->max_tokens = 1 + static_cast<int>(Below(kLongest));
    request->stream = Below(2) == 0;
    request->leaves = Below(12) == 0;
    request->timeout = Below(20) == 0 ? milliseconds(1 + Below(80)) : milliseconds(30000);
    ++open_;
    client_.Spawn(RunClient(
        request.get(),
        begin + Duration(static_cast<int64_t>(Below(static_cast<uint64_t>(span.count()))))));
    requests_.push_back(std::move(request));
  }
  if (faults) client_.Spawn(MakeTrouble(begin + span));
  sim_.RunUntil([this] { return open_ == 0; }, span + seconds(120));
  sim_.RunFor(8 * kLease);
}

std::string World::Wrong(const ClientRequest& request) const {
  if (request.ends != 1) return fmt::format("{} ended {} times", request.id, request.ends);
  const std::vector<wire::TokenId>& answer = answers_.at(request.prompt);
  if (request.tokens.size() > static_cast<size_t>(request.max_tokens) ||
      !std::equal(request.tokens.begin(), request.tokens.end(), answer.begin()))
    return fmt::format("{} has wrong tokens", request.id);
  const bool complete = request.status == 200 && !request.error_event && !request.broken;
  if (complete && request.tokens.size() != static_cast<size_t>(request.max_tokens))
    return fmt::format("{} has {} of {} tokens", request.id, request.tokens.size(),
                       request.max_tokens);
  if (request.broken && !request.leaves) return fmt::format("{} was broken off", request.id);
  if (request.status != 0 && request.status != 200 && request.status != 503 &&
      request.status != 504)
    return fmt::format("{} has the status {}", request.id, request.status);
  return {};
}

rt::Task<void> World::Get(rt::Address address, std::string path, std::string* body) {
  net::HttpClient client(client_, std::move(address));
  net::HttpClientRequest request;
  request.target = std::move(path);
  request.deadline = client_.Now() + seconds(5);
  auto response = co_await client.Send(std::move(request));
  *body = response ? response->body : response.error().message;
  --open_;
}

std::string World::Leaks() {
  std::string leaks;
  for (const auto& [name, role] : kCluster) {
    WorkerProcess& worker = Current(std::string(name));
    if (!worker.Ready()) {
      leaks += fmt::format("{} is not up; ", name);
      continue;
    }
    std::string body;
    ++open_;
    client_.Spawn(
        Get(*rt::Address::Parse(worker.instance().system_address), "/debug/state", &body));
    sim_.RunUntil([this] { return open_ == 0; }, seconds(10));
    const auto state = wire::ParseJson(body);
    if (!state) {
      leaks += fmt::format("{} says {}; ", name, body);
      continue;
    }
    for (const std::string_view what : {"running", "waiting", "waiting_for_kv", "leases", "pins",
                                        "remote_holds", "rpc_streams"}) {
      const wire::Json* engine_state = state->Find("engine");
      const wire::Json* value = what == "rpc_streams" || engine_state == nullptr
                                    ? state->Find(what)
                                    : engine_state->Find(what);
      if (value == nullptr || !value->IsInt())
        leaks += fmt::format("{} has no {}; ", name, what);
      else if (value->AsInt() != 0)
        leaks += fmt::format("{} has {} {}; ", name, value->AsInt(), what);
    }
  }
  for (const std::string_view gauge :
       {"dynamo_frontend_inflight_requests", "dynamo_frontend_queued_requests"}) {
    const std::string line = FrontendMetric(fmt::format("{}{{model=\"mock\"}}", gauge));
    if (line != "0") leaks += fmt::format("the frontend has {} {}; ", line, gauge);
  }
  return leaks;
}

std::string World::FrontendMetric(std::string_view line_start) const {
  const std::string all = metrics_.Render();
  const size_t at = all.find(line_start);
  if (at == std::string::npos) return "none";
  const size_t value = at + line_start.size() + 1;
  return all.substr(value, all.find('\n', value) - value);
}

}  // namespace tandem::cluster_sim

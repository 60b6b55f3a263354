#include "router/router_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.h"

namespace tandem::router {
namespace {

std::optional<Role> ParseRole(std::string_view text) {
  for (const Role role : {Role::kAggregated, Role::kPrefill, Role::kDecode})
    if (text == RoleName(role)) return role;
  return std::nullopt;
}

// What workers of one model must have in common.
struct Shared {
  std::string_view name;
  std::string wire::ModelCard::* field;
};
constexpr std::array kShared = {
    Shared{"weights_digest", &wire::ModelCard::weights_digest},
    Shared{"tokenizer_digest", &wire::ModelCard::tokenizer_digest},
    Shared{"template_digest", &wire::ModelCard::template_digest},
    Shared{"generation_config_digest", &wire::ModelCard::generation_config_digest},
    Shared{"content_format", &wire::ModelCard::content_format},
};

bool Earlier(const wire::Instance& a, const wire::Instance& b) {
  return std::pair(a.started_unix_ms, a.id) < std::pair(b.started_unix_ms, b.id);
}

std::string_view Shown(const std::string& value) {
  return value.empty() ? std::string_view("none") : std::string_view(value);
}

bool Shares(const std::vector<const Worker*>& workers, const std::string& connector) {
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return worker->connector() == connector; });
}

}  // namespace

Topology ModelGroup::topology() const {
  const bool decode = !Of(Role::kDecode).empty();
  if (decode && !Of(Role::kPrefill).empty()) return Topology::kDisaggregated;
  if (!Of(Role::kAggregated).empty()) return Topology::kAggregated;
  return !decode ? Topology::kNone : Topology::kDecodeAlone;
}

RouterTable::RouterTable(Options options, std::unique_ptr<Picker> picker,
                         std::function<MonoTime()> now, Metrics& metrics)
    : options_(std::move(options)),
      picker_(std::move(picker)),
      now_(std::move(now)),
      metrics_(metrics) {}

void RouterTable::Update(std::span<const wire::Instance> instances) {
  std::map<uint64_t, Worker> next;
  for (const wire::Instance& instance : instances) {
    if (instance.endpoint != "generate" || instance.card.name.empty()) continue;
    if (!options_.only_model.empty() && instance.card.name != options_.only_model) continue;
    const auto role = ParseRole(instance.card.role);
    if (!role) {
      LOG_WARN_ONCE("worker {:x} has the role '{}', which this frontend does not know; not used",
                    instance.id, instance.card.role);
      continue;
    }
    Worker worker{.instance = instance, .role = *role, .excluded = {}};
    const auto known = workers_.find(instance.id);
    if (known != workers_.end()) {
      worker.inhibited_until = known->second.inhibited_until;
      worker.excluded = known->second.excluded;
    } else {
      LOG_INFO("worker {:x} ({}) serves '{}' at {}", instance.id, instance.card.role,
               instance.card.name, instance.address);
    }
    next.emplace(instance.id, std::move(worker));
  }
  for (const auto& [id, worker] : workers_)
    if (!next.contains(id))
      LOG_INFO("worker {:x} ({}) of '{}' is gone", id, RoleName(worker.role),
               worker.instance.card.name);
  workers_ = std::move(next);
  Regroup();
  ShowStates();
}

void RouterTable::Regroup() {
  groups_.clear();
  aliases_.clear();
  std::map<std::string_view, const wire::Instance*> earliest;
  for (const auto& [id, worker] : workers_) {
    const wire::Instance*& first = earliest[worker.instance.card.name];
    if (first == nullptr || Earlier(worker.instance, *first)) first = &worker.instance;
  }
  for (auto& [id, worker] : workers_) {
    const wire::Instance& first = *earliest[worker.instance.card.name];
    Exclude(worker, first);
    auto [at, made] = groups_.try_emplace(worker.instance.card.name);
    ModelGroup& group = at->second;
    if (made) {
      group.name = first.card.name;
      group.card = first.card;
      group.created_unix = first.started_unix_ms / 1000;
      group.max_model_len = first.card.max_model_len;
    }
    if (!worker.excluded.empty()) continue;
    group.max_model_len = std::min(group.max_model_len, worker.instance.card.max_model_len);
    group.by_role[static_cast<size_t>(worker.role)].push_back(&worker);
  }
  for (const auto& [name, group] : groups_)
    for (const std::string& alias : group.card.aliases)
      if (!groups_.contains(alias)) aliases_.try_emplace(alias, name);
}

void RouterTable::Exclude(Worker& worker, const wire::Instance& earliest) {
  for (const Shared& shared : kShared) {
    const std::string& ours = worker.instance.card.*shared.field;
    const std::string& theirs = earliest.card.*shared.field;
    if (ours == theirs) continue;
    std::string why = fmt::format("{} is {}, but {} on worker {:x}, which registered first",
                                  shared.name, Shown(ours), Shown(theirs), earliest.id);
    if (why != worker.excluded)
      LOG_WARN(
          "worker {:x} of '{}' gets no requests: {}. Give all workers of a model the same files",
          worker.id(), worker.instance.card.name, why);
    worker.excluded = std::move(why);
    return;
  }
  if (!worker.excluded.empty())
    LOG_INFO("worker {:x} of '{}' gets requests again", worker.id(), worker.instance.card.name);
  worker.excluded.clear();
}

void RouterTable::ShowStates() {
  for (Gauge* gauge : state_gauges_) gauge->Set(0);
  state_gauges_.clear();
  for (const auto& [id, worker] : workers_) {
    const std::string_view state = worker.excluded.empty() ? "serving" : "excluded";
    Gauge& gauge = metrics_.GetGauge("tandem_frontend_workers",
                                     "Registered workers, by whether they get requests",
                                     {{"model", worker.instance.card.name},
                                      {"role", std::string(RoleName(worker.role))},
                                      {"state", std::string(state)}});
    gauge.Add(1);
    state_gauges_.push_back(&gauge);
  }
}

Result<const ModelGroup*> RouterTable::Find(std::string_view model) const {
  const ModelGroup* group = nullptr;
  if (model.empty()) {
    for (const auto& [name, candidate] : groups_) {
      if (!candidate.Servable()) continue;
      if (group != nullptr)
        return FieldErr("model", "several models are served; name one of them in 'model'");
      group = &candidate;
    }
  } else if (const auto found = groups_.find(model); found != groups_.end()) {
    group = &found->second;
  } else if (const auto alias = aliases_.find(model); alias != aliases_.end()) {
    group = &groups_.find(alias->second)->second;
  }
  if (group == nullptr) {
    if (groups_.empty() || model.empty())
      return Err(Code::kUnavailable,
                 "no worker is registered; start one with 'tandem worker' or 'tandem serve' (or, "
                 "if it is being started or restarted, try again in a moment)");
    return std::unexpected(
        Error{Code::kNotFound,
              fmt::format("the model '{}' is not served here; GET /v1/models lists those that are",
                          model),
              "model"});
  }
  if (!group->Servable())
    return Err(Code::kUnavailable,
               "the model '{}' has no decode or aggregated worker; start one with "
               "--disaggregation-mode decode or agg (or, if it is being restarted, try again in a "
               "moment)",
               group->name);
  return group;
}

std::vector<const ModelGroup*> RouterTable::Models() const {
  std::vector<const ModelGroup*> models;
  for (const auto& [name, group] : groups_) models.push_back(&group);
  return models;
}

std::vector<const Worker*> RouterTable::Workers() const {
  std::vector<const Worker*> workers;
  for (const auto& [id, worker] : workers_) workers.push_back(&worker);
  return workers;
}

const Worker* RouterTable::Pick(const ModelGroup& group, Role role, const PickOptions& options) {
  std::vector<const Worker*> ready;
  std::vector<const Worker*> inhibited;
  const MonoTime now = now_();
  for (const Worker* worker : group.Of(role)) {
    if (worker->id() == options.except) continue;
    if (options.connector != nullptr && worker->connector() != *options.connector) continue;
    if (options.paired && !Shares(group.Of(Role::kDecode), worker->connector())) continue;
    (now < worker->inhibited_until ? inhibited : ready).push_back(worker);
  }
  const std::vector<const Worker*>& candidates = ready.empty() ? inhibited : ready;
  if (candidates.empty()) return nullptr;
  const PickInput input{.model = group.name, .role = role, .prompt = options.prompt};
  return candidates[picker_->Pick(candidates, input)];
}

Status RouterTable::CheckPairs(const ModelGroup& group) const {
  for (const Worker* worker : group.Of(Role::kPrefill))
    if (Shares(group.Of(Role::kDecode), worker->connector())) return {};
  return Err(Code::kIncompatible,
             "no prefill and decode worker of '{}' have the same kv_connector: prefill has '{}', "
             "decode has '{}'; give both the same --kv-transfer-config",
             group.name, group.Of(Role::kPrefill).front()->connector(),
             group.Of(Role::kDecode).front()->connector());
}

void RouterTable::Inhibit(uint64_t instance) {
  const auto found = workers_.find(instance);
  if (found != workers_.end()) found->second.inhibited_until = now_() + options_.inhibit;
}

}  // namespace tandem::router

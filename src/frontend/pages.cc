#include "frontend/pages.h"

#include <set>

#include "wire/json_writer.h"

namespace tandem::frontend {
namespace {

void AppendModel(wire::JsonWriter& json, const router::ModelGroup& group, std::string_view id) {
  json.BeginObject().Key("id").String(id).Key("object").String("model");
  json.Key("created").Int(group.created_unix).Key("owned_by").String("tandem");
  json.Key("root").String(group.name).Key("max_model_len").Int(group.max_model_len).EndObject();
}

template <class Use>
void ForEachName(const router::RouterTable& table, Use use) {
  for (const router::ModelGroup* group : table.Models()) {
    if (!group->Servable()) continue;
    use(*group, group->name);
    for (const std::string& alias : group->card.aliases) {
      const auto found = table.Find(alias);
      // An alias may belong to another model.
      if (found && *found == group && alias != group->name) use(*group, alias);
    }
  }
}

std::string_view StateOf(const router::Worker& worker, MonoTime now) {
  if (!worker.excluded.empty()) return "excluded";
  return now < worker.inhibited_until ? "inhibited" : "serving";
}

}  // namespace

std::string ModelsPage(const router::RouterTable& table) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  ForEachName(table, [&](const router::ModelGroup& group, std::string_view id) {
    AppendModel(json, group, id);
  });
  json.EndArray().EndObject();
  return out;
}

std::optional<std::string> ModelPage(const router::RouterTable& table, std::string_view name) {
  std::optional<std::string> page;
  ForEachName(table, [&](const router::ModelGroup& group, std::string_view id) {
    if (id != name) return;
    wire::JsonWriter json(page.emplace());
    AppendModel(json, group, id);
  });
  return page;
}

std::string HealthPage(const router::RouterTable& table, MonoTime now) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("status").String("healthy");
  std::set<std::string> endpoints;
  for (const router::Worker* worker : table.Workers())
    endpoints.insert(fmt::format("dyn://{}.{}.{}", worker->instance.ns, worker->instance.component,
                                 worker->instance.endpoint));
  json.Key("endpoints").BeginArray();
  for (const std::string& endpoint : endpoints) json.String(endpoint);
  json.EndArray().Key("models").BeginArray();
  for (const router::ModelGroup* group : table.Models()) {
    const auto found = table.Find(group->name);
    json.BeginObject().Key("name").String(group->name).Key("ready").Bool(found.has_value());
    if (!found) json.Key("reason").String(found.error().message);
    json.EndObject();
  }
  json.EndArray().Key("instances").BeginArray();
  for (const router::Worker* worker : table.Workers()) {
    const wire::Instance& instance = worker->instance;
    json.BeginObject().Key("namespace").String(instance.ns);
    json.Key("component").String(instance.component).Key("endpoint").String(instance.endpoint);
    json.Key("instance_id").Int(instance.id).Key("transport").String(instance.address);
    json.Key("model").String(instance.card.name).Key("role").String(RoleName(worker->role));
    json.Key("state").String(StateOf(*worker, now));
    if (!worker->excluded.empty()) json.Key("reason").String(worker->excluded);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

}  // namespace tandem::frontend

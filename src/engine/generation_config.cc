#include "engine/generation_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/log.h"

namespace tandem::engine {
namespace {

namespace fs = std::filesystem;
using wire::Json;

constexpr std::string_view kFlag = "--override-generation-config";
constexpr std::string_view kFile = "generation_config.json";
constexpr uintmax_t kMaxBytes = 1 << 20;
constexpr std::array<std::string_view, 6> kSettings = {
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens"};

Result<Json> ParseOverrides(std::string_view json) {
  auto parsed = wire::ParseJson(json, {.max_bytes = kMaxBytes, .max_depth = 16});
  if (!parsed) return FieldErr(kFlag, "{}: {}", kFlag, parsed.error().message);
  if (!parsed->IsObject())
    return FieldErr(kFlag, "{}: {} is not a JSON object: write e.g. '{{\"temperature\":0.5}}'",
                    kFlag, parsed->TypeName());
  return parsed;
}

void TakeSettings(const Json& from, Json::Object& to) {
  for (const std::string_view name : kSettings) {
    const Json* value = from.Find(name);
    if (value == nullptr) continue;
    std::erase_if(to, [&](const Json::Member& member) { return member.key == name; });
    // null takes a setting back.
    if (value->IsNumber()) to.push_back({std::string(name), *value});
  }
}

// Nothing where neither the field nor a list of ids is there.
std::optional<std::vector<int64_t>> EosOf(const Json& config) {
  const Json* value = config.Find("eos_token_id");
  if (value == nullptr || value->IsNull()) {
    // Models that also see or hear keep the language model's part apart.
    const Json* text = config.Find("text_config");
    if (text == nullptr || (value = text->Find("eos_token_id")) == nullptr) return std::nullopt;
  }
  std::vector<int64_t> ids;
  if (value->IsInt()) ids.push_back(value->AsInt());
  if (value->IsArray())
    for (const Json& id : value->AsArray())
      if (id.IsInt()) ids.push_back(id.AsInt());
  return ids;
}

}  // namespace

Result<std::optional<Json>> ReadJsonObject(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxBytes)
    return Err(Code::kCorrupt, "{}: cannot be read, or is larger than {} bytes", path, kMaxBytes);
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return Err(Code::kCorrupt, "{}: cannot be read", path);
  auto json = wire::ParseJson(text);
  if (!json) return Err(Code::kCorrupt, "{}: {}", path, json.error().message);
  if (!json->IsObject()) return Err(Code::kCorrupt, "{}: not a JSON object", path);
  return std::optional<Json>(*std::move(json));
}

Status CheckGenerationOverrides(std::string_view json) {
  if (json.empty()) return {};
  TRY_ASSIGN(const Json overrides, ParseOverrides(json));
  for (const auto& [name, value] : overrides.AsObject()) {
    if (std::find(kSettings.begin(), kSettings.end(), name) == kSettings.end()) {
      LOG_WARN("{}: '{}' has no effect on this engine", kFlag, name);
    } else if (!value.IsNumber() && !value.IsNull()) {
      return FieldErr(kFlag, "{}: {} must be a number, not {}", kFlag, name, value.TypeName());
    }
  }
  return {};
}

Result<GenerationConfig> ReadGenerationConfig(const GenerationSources& sources) {
  const bool named = sources.choice != "auto" && sources.choice != "vllm";
  const std::string& folder = named ? sources.choice : sources.model_folder;
  GenerationConfig config;
  Json::Object settings;
  if (!folder.empty()) {
    const std::string path = fmt::format("{}/{}", folder, kFile);
    TRY_ASSIGN(const std::optional<Json> file, ReadJsonObject(path));
    if (named && !file)
      return FieldErr("--generation-config",
                      "--generation-config: {} does not exist; write auto, vllm or a folder that "
                      "has it",
                      path);
    std::optional<std::vector<int64_t>> eos;
    if (file) {
      if (sources.choice != "vllm") TakeSettings(*file, settings);
      eos = EosOf(*file);
    }
    if (!eos) {
      TRY_ASSIGN(const std::optional<Json> model, ReadJsonObject(folder + "/config.json"));
      if (model) eos = EosOf(*model);
    }
    if (eos) config.eos_ids = *std::move(eos);
  }
  if (!sources.overrides.empty()) {
    TRY_ASSIGN(const Json overrides, ParseOverrides(sources.overrides));
    TakeSettings(overrides, settings);
  }
  if (!settings.empty()) config.defaults = wire::ToJsonText(Json(std::move(settings)));
  return config;
}

}  // namespace tandem::engine

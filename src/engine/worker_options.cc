#include "engine/worker_options.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "engine/generation_config.h"
#include "wire/json.h"

namespace tandem::engine {
namespace {

constexpr std::string_view kFlag = "--kv-transfer-config";

// Fields that the reference knows and that change nothing here.
constexpr std::array<std::string_view, 8> kKnownFields = {"kv_buffer_device",
                                                          "kv_buffer_size",
                                                          "kv_rank",
                                                          "kv_parallel_size",
                                                          "kv_ip",
                                                          "kv_port",
                                                          "kv_connector_module_path",
                                                          "enable_permute_local_kv"};

std::unexpected<Error> Wrong(std::string_view field, std::string_view wanted) {
  return FieldErr(kFlag, "--kv-transfer-config: {} must be {}", field, wanted);
}

Result<std::string> Text(std::string_view field, const wire::Json& value) {
  if (value.IsNull()) return std::string();
  if (!value.IsString()) return Wrong(field, "a text");
  return value.AsString();
}

Status TakeExtra(const wire::Json& extra, KvTransferConfig& config) {
  if (extra.IsNull()) return {};
  if (!extra.IsObject()) return Wrong("kv_connector_extra_config", "an object");
  for (const auto& [key, value] : extra.AsObject()) {
    if (key != "kv_lease_duration") {
      LOG_INFO("--kv-transfer-config: kv_connector_extra_config.{} has no effect on this engine",
               key);
      continue;
    }
    if (!value.IsNumber() || !(value.AsDouble() >= 1) || value.AsDouble() > 86400)
      return Wrong("kv_connector_extra_config.kv_lease_duration", "seconds from 1 to 86400");
    config.lease =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value.AsDouble()));
  }
  return {};
}

Status TakeField(const std::string& key, const wire::Json& value, KvTransferConfig& config) {
  if (key == "kv_connector") {
    TRY_ASSIGN(config.kv_connector, Text(key, value));
  } else if (key == "kv_role") {
    TRY_ASSIGN(config.kv_role, Text(key, value));
  } else if (key == "engine_id") {
    TRY_ASSIGN(config.engine_id, Text(key, value));
    if (config.engine_id.size() > 1024) return Wrong(key, "at most 1024 bytes long");
  } else if (key == "kv_connector_extra_config") {
    return TakeExtra(value, config);
  } else if (key == "kv_load_failure_policy") {
    // A failed pull is always recomputed here, which serves a client of "fail" no worse.
    if (!value.IsString() || (value.AsString() != "fail" && value.AsString() != "recompute"))
      return Wrong(key, "\"fail\" or \"recompute\"");
    if (value.AsString() == "fail")
      LOG_WARN("--kv-transfer-config: kv_load_failure_policy \"fail\" is taken as \"recompute\"");
  } else if (std::find(kKnownFields.begin(), kKnownFields.end(), key) != kKnownFields.end()) {
    LOG_INFO("--kv-transfer-config: {} has no effect on this engine", key);
  } else {
    return FieldErr(kFlag,
                    "--kv-transfer-config: unknown field '{}'; known are kv_connector, kv_role, "
                    "engine_id, kv_connector_extra_config and the reference's other fields",
                    key);
  }
  return {};
}

Status CheckRange(std::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return FieldErr(flag, "{} is {}; it must be from {} to {}", flag, value, low, high);
}

Status CheckHfOverrides(std::string_view overrides) {
  constexpr std::string_view kOverrides = "--hf-overrides";
  if (overrides.empty()) return {};
  const auto json = wire::ParseJson(overrides, {.max_bytes = 1 << 20, .max_depth = 16});
  if (!json) return FieldErr(kOverrides, "{}: {}", kOverrides, json.error().message);
  if (!json->IsObject())
    return FieldErr(kOverrides, "{}: {} is not a JSON object", kOverrides, json->TypeName());
  return {};
}

Status ValidateTransfer(const WorkerOptions& options) {
  if (!options.kv_transfer) {
    if (options.role != Role::kPrefill) return {};
    return FieldErr(kFlag,
                    "a prefill worker hands its KV over, so it needs --kv-transfer-config: write "
                    "'{{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}}'");
  }
  if (options.transports.empty())
    return FieldErr("--kv-transports", "--kv-transports is empty; write shm,tcp");
  for (const std::string& transport : options.transports)
    if (transport != "shm" && transport != "tcp")
      return FieldErr("--kv-transports", "--kv-transports: '{}' is unknown; known are shm and tcp",
                      transport);
  return {};
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
    case Role::kAggregated:
      break;
  }
  return "agg";
}

Result<Role> ParseRole(std::string_view text) {
  if (text == "agg" || text == "pd") return Role::kAggregated;
  if (text == "prefill") return Role::kPrefill;
  if (text == "decode") return Role::kDecode;
  return FieldErr("--disaggregation-mode",
                  "--disaggregation-mode '{}' is unknown; this engine knows agg, pd, prefill and "
                  "decode",
                  text);
}

Result<KvTransferConfig> ParseKvTransferConfig(std::string_view json) {
  const auto object = wire::ParseJson(json, {.max_bytes = 1 << 20, .max_depth = 16});
  if (!object) return FieldErr(kFlag, "--kv-transfer-config: {}", object.error().message);
  if (!object->IsObject()) return FieldErr(kFlag, "--kv-transfer-config must be a JSON object");
  KvTransferConfig config;
  for (const auto& [key, value] : object->AsObject()) TRY(TakeField(key, value, config));
  if (config.kv_connector.empty()) {
    // The reference's workers take the pull connector's shape then; here it is the only one.
    config.kv_connector = "NixlConnector";
    if (config.kv_role.empty()) config.kv_role = "kv_both";
  }
  if (config.kv_connector != "NixlConnector" && config.kv_connector != "NixlPullConnector")
    return FieldErr(kFlag,
                    "--kv-transfer-config: kv_connector '{}' is not served by this engine; write "
                    "\"NixlConnector\"",
                    config.kv_connector);
  if (config.kv_role != "kv_producer" && config.kv_role != "kv_consumer" &&
      config.kv_role != "kv_both")
    return FieldErr(kFlag,
                    "--kv-transfer-config: kv_role is '{}'; it must be kv_producer, kv_consumer or "
                    "kv_both",
                    config.kv_role);
  return config;
}

Result<model::KvDtype> KvCacheDtype(const WorkerOptions& options) {
  constexpr std::string_view kDtypes[] = {"auto", "float32", "bfloat16", "float16"};
  if (std::ranges::find(kDtypes, options.dtype) == std::end(kDtypes))
    return FieldErr("--dtype", "--dtype is '{}'; it must be auto, float32, bfloat16 or float16",
                    options.dtype);
  if (options.kv_cache_dtype == "auto")
    return options.dtype == "float32" ? model::KvDtype::kFloat32 : model::KvDtype::kFloat16;
  const auto dtype = model::KvDtypeOfFlag(options.kv_cache_dtype);
  if (!dtype)
    return FieldErr("--kv-cache-dtype",
                    "--kv-cache-dtype is '{}'; it must be auto, bfloat16, float16, "
                    "int8_per_token_head or float32",
                    options.kv_cache_dtype);
  return *dtype;
}

Status Validate(const WorkerOptions& options) {
  if (options.engine == EngineKind::kNative && options.model_path.empty())
    return FieldErr("--model", "the native engine needs --model path/to/model.gguf");
  TRY(KvCacheDtype(options));
  if (options.engine == EngineKind::kMock && options.kv_cache_dtype != "auto")
    return FieldErr("--kv-cache-dtype",
                    "--kv-cache-dtype {}: the mock engine keeps no keys and values; leave it out",
                    options.kv_cache_dtype);
  TRY(CheckRange("--block-size", options.block_size, 1, 1024));
  TRY(CheckRange("--max-num-seqs", options.max_num_seqs, 1, 4096));
  TRY(CheckRange("--max-num-batched-tokens", options.max_num_batched_tokens, 0, 1 << 20));
  if (options.max_num_batched_tokens > 0 && options.max_num_batched_tokens < options.max_num_seqs)
    return FieldErr("--max-num-batched-tokens",
                    "--max-num-batched-tokens {} is less than --max-num-seqs {}, so the running "
                    "sequences would not fit one step; raise the one or lower the other",
                    options.max_num_batched_tokens, options.max_num_seqs);
  TRY(CheckRange("--max-model-len", options.max_model_len, 0, int64_t{1} << 40));
  TRY(CheckRange("--max-waiting", options.max_waiting, 0, 1 << 20));
  TRY(CheckRange("--num-gpu-blocks-override", options.num_gpu_blocks_override, 0, INT32_MAX));
  TRY(CheckRange("--kv-cache-memory-bytes", options.kv_cache_memory_bytes, 0, INT64_MAX));
  TRY(CheckRange("--workers-on-host", options.workers_on_host, 1, 4096));
  TRY(CheckRange("--threads", options.threads, 0, 1024));
  if (!(options.cpu_share >= 0 && options.cpu_share <= 1))
    return FieldErr("--cpu-share", "--cpu-share is {}; it must be above 0 and at most 1",
                    options.cpu_share);
  TRY(CheckRange("DYN_SYSTEM_PORT", options.system_port, -1, 65535));
  if (options.engine == EngineKind::kMock &&
      options.mock.block_bytes < static_cast<uint64_t>(options.block_size) * 8)
    return FieldErr(
        "--mock-block-bytes",
        "--mock-block-bytes {} is too small: the mock engine keeps 8 bytes per token, {} "
        "for a block of {} tokens",
        options.mock.block_bytes, options.block_size * 8, options.block_size);
  TRY(CheckHfOverrides(options.hf_overrides));
  TRY(CheckGenerationOverrides(options.override_generation_config));
  return ValidateTransfer(options);
}

}  // namespace tandem::engine

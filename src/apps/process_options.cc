#include "apps/process_options.h"

#include <algorithm>
#include <cstdlib>

#include "apps/model_option.h"
#include "apps/template_option.h"
#include "base/log.h"
#include "wire/json.h"

namespace tandem::apps {
namespace {

Duration Microseconds(double us) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(us));
}

// The role, with the two deprecated flags taken into account.
Result<engine::Role> ResolveRole(const ParsedOptions& parsed) {
  const bool prefill = parsed.Bool("is-prefill-worker");
  const bool decode = parsed.Bool("is-decode-worker");
  const bool mode_set = parsed.IsSet("disaggregation-mode");
  if (prefill && decode)
    return Err(Code::kInvalidArgument,
               "--is-prefill-worker and --is-decode-worker exclude each other: write "
               "--disaggregation-mode agg for a worker that does both");
  if (!prefill && !decode) return engine::ParseRole(parsed.Text("disaggregation-mode"));
  const std::string_view role = prefill ? "prefill" : "decode";
  if (mode_set)
    return Err(Code::kInvalidArgument,
               "--is-{}-worker and --disaggregation-mode exclude each other: keep "
               "--disaggregation-mode {}",
               role, role);
  LOG_WARN("--is-{}-worker is deprecated: write --disaggregation-mode {}", role, role);
  return prefill ? engine::Role::kPrefill : engine::Role::kDecode;
}

void TakeTransfer(const ParsedOptions& parsed, engine::WorkerOptions& options) {
  options.side_channel_host = parsed.Text("side-channel-host");
  options.side_channel_port = static_cast<uint16_t>(parsed.Int("side-channel-port"));
  options.advertised_side_channel_host = parsed.Text("advertise-host");
  options.transports = parsed.List("kv-transports");
}

void TakePlanes(const ParsedOptions& parsed, engine::WorkerOptions& options) {
  options.ns = parsed.Text("namespace");
  options.rpc_host = parsed.Text("rpc-host");
  options.rpc_port = static_cast<uint16_t>(parsed.Int("rpc-port"));
  options.advertised_host = parsed.Text("advertise-host");
  options.system_host = parsed.Text("system-host");
  options.system_port = static_cast<int32_t>(parsed.Int("system-port"));
}

void TakeResources(const ParsedOptions& parsed, engine::WorkerOptions& options) {
  options.kv_cache_dtype = parsed.Text("kv-cache-dtype");
  options.block_size = static_cast<int32_t>(parsed.Int("block-size"));
  options.max_num_seqs = static_cast<int32_t>(parsed.Int("max-num-seqs"));
  options.max_num_batched_tokens = static_cast<int32_t>(parsed.Int("max-num-batched-tokens"));
  options.max_model_len = std::max<int64_t>(0, parsed.Int("max-model-len"));  // auto is -1
  options.max_waiting = static_cast<int32_t>(parsed.Int("max-waiting"));
  options.enable_prefix_caching = parsed.Bool("enable-prefix-caching");
  options.hash_seed = parsed.Text("hash-seed");
  options.num_gpu_blocks_override = static_cast<int32_t>(parsed.Int("num-gpu-blocks-override"));
  options.kv_cache_memory_bytes = parsed.Int("kv-cache-memory-bytes");
  options.workers_on_host = static_cast<int32_t>(parsed.Int("workers-on-host"));
  options.threads = static_cast<int32_t>(parsed.Int("threads"));
  options.cpu_share = parsed.Number("cpu-share");
  options.core_board = parsed.Text("core-board");
}

void TakeMock(const ParsedOptions& parsed, engine::MockOptions& mock) {
  mock.step = Microseconds(parsed.Number("mock-step-us"));
  mock.prefill_token = Microseconds(parsed.Number("mock-prefill-token-us"));
  mock.decode_token = Microseconds(parsed.Number("mock-decode-token-us"));
  mock.vocab = static_cast<int32_t>(parsed.Int("mock-vocab"));
  mock.context_length = parsed.Int("mock-context-length");
  mock.block_bytes = static_cast<uint64_t>(parsed.Int("mock-block-bytes"));
}

}  // namespace

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

frontend::FrontendOptions MakeFrontendOptions(const ParsedOptions& parsed) {
  constexpr size_t kMib = size_t{1} << 20;
  frontend::FrontendOptions options;
  options.host = parsed.Text("http-host");
  options.port = static_cast<uint16_t>(parsed.Int("http-port"));
  options.ns = parsed.Text("namespace");
  options.model_name = parsed.Text("model-name");
  options.router_mode = parsed.Text("router-mode");
  options.enforce_disagg = parsed.Bool("enforce-disagg");
  options.request_timeout = Seconds(parsed.Number("request-timeout"));
  options.body_limit = static_cast<size_t>(parsed.Int("body-limit-mb")) * kMib;
  options.max_connections = static_cast<size_t>(parsed.Int("max-connections"));
  options.max_inflight = static_cast<size_t>(parsed.Int("max-inflight"));
  options.overload_status = static_cast<int>(parsed.Int("overload-status"));
  options.worker_inhibit = Seconds(parsed.Number("worker-inhibit"));
  options.metrics_prefix = parsed.Text("metrics-prefix");
  options.trust_request_chat_template = parsed.Bool("trust-request-chat-template");
  if (parsed.IsSet("template-clock")) options.template_clock = parsed.Int("template-clock");
  options.artifact_cache_bytes = static_cast<size_t>(parsed.Int("artifact-cache-mb")) * kMib;
  return options;
}

Status CheckWorkerSyntax(const ParsedOptions& parsed) {
  if (!parsed.IsSet("kv-transfer-config")) return {};
  const auto json = wire::ParseJson(parsed.Text("kv-transfer-config"));
  if (!json)
    return FieldErr("--kv-transfer-config", "--kv-transfer-config: {}: write e.g. '{}'",
                    json.error().message, kTransferConfigExample);
  if (!json->IsObject())
    return FieldErr("--kv-transfer-config",
                    "--kv-transfer-config: {} is not a JSON object: write e.g. '{}'",
                    json->TypeName(), kTransferConfigExample);
  return {};
}

Result<engine::WorkerOptions> MakeWorkerOptions(const ParsedOptions& parsed) {
  engine::WorkerOptions options;
  TRY_ASSIGN(options.role, ResolveRole(parsed));
  if (parsed.IsSet("kv-transfer-config")) {
    TRY_ASSIGN(options.kv_transfer,
               engine::ParseKvTransferConfig(parsed.Text("kv-transfer-config")));
  } else if (options.role == engine::Role::kPrefill) {
    return Err(Code::kInvalidArgument,
               "--disaggregation-mode prefill needs --kv-transfer-config, because its KV would "
               "reach no decode worker: write --kv-transfer-config '{}'",
               kTransferConfigExample);
  }
  const std::string& engine = parsed.Text("engine");
  options.engine = engine == "mock" ? engine::EngineKind::kMock : engine::EngineKind::kNative;
  options.refuse_large_model = engine == "auto";
  if (engine == "auto") LOG_INFO("--engine auto: the native engine computes on this CPU");
  const std::string& model = parsed.Text("model");
  if (options.engine == engine::EngineKind::kNative && model.empty())
    return Err(Code::kInvalidArgument,
               "no model was named: write --model PATH or --model ORG/NAME (or --engine mock)");
  TRY_ASSIGN(const auto found, ResolveModel(parsed));
  if (found) options.model_path = found->path;
  if (found && found->from_hub) options.served_name = found->name;
  const auto names = parsed.List("served-model-name");
  if (!names.empty()) {
    options.served_name = names.front();
    options.aliases.assign(names.begin() + 1, names.end());
  }
  const std::string cache = CacheFolder(parsed);
  if (!cache.empty()) options.cache_dir = cache + "/packed";
  options.force_isa = parsed.Text("isa");
  options.dtype = parsed.Text("dtype");
  TRY_ASSIGN(options.chat_template, ReadTemplateOption(parsed));
  options.tokenizer_path = parsed.Text("tokenizer");
  options.hf_overrides = parsed.Text("hf-overrides");
  options.generation_config = parsed.Text("generation-config");
  options.override_generation_config = parsed.Text("override-generation-config");
  options.content_format = parsed.Text("chat-template-content-format");
  TakeTransfer(parsed, options);
  TakePlanes(parsed, options);
  TakeResources(parsed, options);
  TakeMock(parsed, options.mock);
  TRY(engine::Validate(options));
  return options;
}

Status CheckModelGiven(const ParsedOptions& parsed) {
  const CommandSpec& command = SpecOf(parsed.command());
  const bool mock = parsed.command() == kServe && parsed.Text("engine") == "mock";
  if (!parsed.positional().empty() || mock) return {};
  return FieldErr(command.positional,
                  "{} is missing: write 'tandem {} path/to/model.gguf' ('tandem {} --help' shows "
                  "examples)",
                  command.positional, command.name, command.name);
}

std::string CacheFolder(const ParsedOptions& parsed) {
  if (!parsed.Text("cache-dir").empty()) return parsed.Text("cache-dir");
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::string(home) + "/.cache/tandem";
}

PlaneChoice MakePlaneChoice(const ParsedOptions& parsed) {
  return {parsed.Text("request-plane"), parsed.Text("discovery-backend"),
          parsed.Text("discovery-path")};
}

}  // namespace tandem::apps

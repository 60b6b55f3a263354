// Everything a worker can be told. apps/ maps command-line flags and variables onto this struct;
// Validate names the flag at fault. Zero means "chosen at start and said in the log" where noted.
#ifndef TANDEM_ENGINE_WORKER_OPTIONS_H_
#define TANDEM_ENGINE_WORKER_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/kv_layout.h"

namespace tandem::engine {

enum class Role : uint8_t {
  kAggregated,  // "agg" (or "pd"): both phases; also serves a prefill or decode leg if asked to
  kPrefill,     // accepts only do_remote_decode requests
  kDecode,      // accepts do_remote_prefill requests, and plain ones (local prompt computation)
};

std::string_view RoleName(Role role);           // "agg", "prefill", "decode"
Result<Role> ParseRole(std::string_view text);  // the names above and "pd"

enum class EngineKind : uint8_t { kNative, kMock };

// --kv-transfer-config, as the reference's JSON object. An object without a connector means
// NixlConnector, kv_both; a named connector needs a role, as in the reference.
struct KvTransferConfig {
  std::string kv_connector;  // only the pull connector ("NixlConnector") is served
  std::string kv_role;       // kv_producer, kv_consumer or kv_both; the request decides the leg
  std::string engine_id;     // empty: random
  Duration lease = std::chrono::seconds(30);  // kv_connector_extra_config.kv_lease_duration
};
// Errors name the field. Unknown fields are accepted where the reference knows them and said once
// in the log; anything else is kInvalidArgument.
Result<KvTransferConfig> ParseKvTransferConfig(std::string_view json);

// Latency model of the mock engine.
struct MockOptions {
  Duration step = std::chrono::microseconds(500);          // fixed cost of a step
  Duration prefill_token = std::chrono::microseconds(50);  // per prompt token in a step
  Duration decode_token = std::chrono::microseconds(500);  // per decode row in a step
  int32_t vocab = 32000;
  int64_t context_length = 131072;
  uint64_t block_bytes = 4096;  // size of a block in the arena, so that transfers move real bytes
};

struct WorkerOptions {
  // Model.
  // As FindModelFiles takes it (model/model_files.h); for the mock engine optional.
  std::string model_path;
  std::string served_name;           // empty: the name of the model's file or folder
  std::vector<std::string> aliases;  // further names of the same model
  // Tokenizer and chat template in place of the model's own; a path and a text, "" for none.
  std::string tokenizer_path;
  std::string chat_template;
  std::string content_format = "auto";     // --chat-template-content-format
  std::string generation_config = "auto";  // --generation-config: auto, vllm or a folder
  std::string override_generation_config;  // JSON text
  std::string hf_overrides;                // JSON object over config.json, "" for none
  EngineKind engine = EngineKind::kNative;
  // Native: whether a model of more than 70 % of the available memory is an error or a warning.
  bool refuse_large_model = true;
  std::string cache_dir;  // packed weights; empty: packed in memory only
  std::string force_isa;  // tests: "plain", "avx2", ...

  std::string dtype = "auto";           // --dtype: auto, float32, bfloat16, float16
  std::string kv_cache_dtype = "auto";  // --kv-cache-dtype: see KvCacheDtype

  // Scheduling.
  Role role = Role::kAggregated;
  int32_t block_size = 16;     // --block-size
  int32_t max_num_seqs = 256;  // --max-num-seqs
  // --max-num-batched-tokens; 0: chosen by engine. Native: 512, because a step on a CPU is bound
  // by arithmetic from about 100 tokens on, so a larger one only adds to the decode rows' wait.
  int32_t max_num_batched_tokens = 0;
  int64_t max_model_len = 0;          // --max-model-len; 0: the model's; clamped to the arena
  int32_t max_waiting = 1024;         // requests queued beyond it are refused
  bool enable_prefix_caching = true;  // --[no-]enable-prefix-caching
  std::string hash_seed;              // text of PYTHONHASHSEED; empty: unset

  // Memory: the first given of these two, else min(max_num_seqs x max_model_len, half of the
  // available memory / workers_on_host).
  int32_t num_gpu_blocks_override = 0;  // --num-gpu-blocks-override
  int64_t kv_cache_memory_bytes = 0;    // --kv-cache-memory-bytes
  int32_t workers_on_host = 1;          // set by `tandem serve`

  // Cores.
  int32_t threads = 0;     // 0: affinity and cgroup quota
  double cpu_share = 0;    // --cpu-share, 0 < share <= 1; 0: the core board decides
  std::string core_board;  // path of the board shared by this host's workers

  // Hand-over of KV. Absent: the worker serves plain requests only.
  std::optional<KvTransferConfig> kv_transfer;
  std::string side_channel_host = "127.0.0.1";  // VLLM_NIXL_SIDE_CHANNEL_HOST
  uint16_t side_channel_port = 0;               // VLLM_NIXL_SIDE_CHANNEL_PORT; 0: any free port
  std::string advertised_side_channel_host;     // empty: advertised_host
  // Transports the reader may choose from, best first. Tests narrow it.
  std::vector<std::string> transports = {"shm", "tcp"};

  // Planes.
  std::string ns = "dynamo";  // namespace of dyn://ns.component.endpoint
  std::string rpc_host = "127.0.0.1";
  uint16_t rpc_port = 0;        // 0: any free port
  std::string advertised_host;  // empty: rpc_host, or the first address if that is 0.0.0.0
  std::string system_host = "127.0.0.1";  // DYN_SYSTEM_HOST
  int32_t system_port = -1;               // DYN_SYSTEM_PORT; -1: off, 0: any free port

  MockOptions mock;
};

// What keys and values are kept as: float16, or float32 under --dtype float32, unless
// --kv-cache-dtype says otherwise. Errors name the flag and list its values.
Result<model::KvDtype> KvCacheDtype(const WorkerOptions& options);

// Checks what can be checked before anything is loaded: ranges, combinations (a prefill worker
// needs a transfer configuration), known names.
Status Validate(const WorkerOptions& options);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_WORKER_OPTIONS_H_

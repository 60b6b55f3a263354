#include <algorithm>
#include <array>

#include "apps/option_spec.h"
#include "base/check.h"

namespace tandem::apps {
namespace {

using enum OptionType;

constexpr unsigned kServing = kWorker | kServe | kRun;
constexpr unsigned kProcesses = kFrontend | kWorker;
constexpr double kMaxPort = 65535;
constexpr double kMaxInt32 = 2147483647;
constexpr double kMaxSize = 1e18;

constexpr std::array kCommands = {
    CommandSpec{kServe, "serve", "", "MODEL",
                "Serve a model on this machine: a frontend and its workers in one command.",
                R"(tandem serve model.gguf
    one worker that does both phases, at http://127.0.0.1:8000
tandem serve model.gguf --prefill 1 --decode 1
    prefill and decode in separate processes
tandem serve model.gguf --http-port 0 --served-model-name tiny
    any free port, printed once the model is loaded)"},
    CommandSpec{kRun, "run", "", "MODEL", "Chat with a model in the terminal.",
                R"(tandem run model.gguf
    ask, read the answer as it is written, ask again; Ctrl-D ends
echo "Why is the sea salty?" | tandem run model.gguf
    one answer per line of input, for scripts)"},
    CommandSpec{kFrontend, "frontend", "", "",
                "OpenAI-compatible HTTP server that routes requests to workers.",
                R"(tandem frontend
    finds the workers of this host and user, in any order of starting
tandem frontend --http-host 0.0.0.0 --http-port 8080 --router-mode random)"},
    CommandSpec{kWorker, "worker", "vllm", "",
                "One engine with one role: aggregated, prefill or decode.",
                R"(tandem worker --model model.gguf
tandem worker --model model.gguf --disaggregation-mode decode \
    --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
tandem worker --model model.gguf --disaggregation-mode prefill \
    --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
    a decode and a prefill worker: start them in any order, beside `tandem frontend`
tandem worker --engine mock --served-model-name mock
    the real planes with a latency model in place of the model)"},
};

// Written as positional aggregates in the order of OptionSpec's members.
constexpr std::array kOptions = {
    // clang-format off
    // serve
    OptionSpec{"prefill", "", kInt, "0", "", "N", "Workers", kServe,
        "Number of prefill workers. 0 together with --decode 0: one aggregated worker.", 0, 64},
    OptionSpec{"decode", "", kInt, "0", "", "M", "Workers", kServe,
        "Number of decode workers.", 0, 64},
    // run
    OptionSpec{"system", "", kText, "", "", "TEXT", "Chat", kRun,
        "System message; without it the model's template chooses."},
    OptionSpec{"max-tokens", "", kInt, "1024", "", "N", "Chat", kRun,
        "Longest answer, in tokens.", 1, kMaxInt32},
    OptionSpec{"temperature", "", kNumber, "0.7", "", "T", "Chat", kRun,
        "0 always takes the likeliest token.", 0, 2},
    OptionSpec{"seed", "", kInt, "", "", "N", "Chat", kRun,
        "Makes answers repeatable.", 0, 9e15},

    // HTTP
    OptionSpec{"http-host", "DYN_HTTP_HOST", kText, "127.0.0.1", "", "HOST", "HTTP", kFrontend | kServe,
        "Address to listen on; 0.0.0.0 lets other machines in."},
    OptionSpec{"http-port", "DYN_HTTP_PORT", kInt, "8000", "", "PORT", "HTTP", kFrontend | kServe,
        "Port to listen on; 0 takes any free one and prints it.", 0, kMaxPort},
    OptionSpec{"request-timeout", "TANDEM_REQUEST_TIMEOUT", kNumber, "600", "", "SECONDS", "HTTP", kFrontend | kServe,
        "Longest time of a request, 504 after it. A client may shorten it with x-request-timeout-ms.", 0.001, 1e6},
    OptionSpec{"body-limit-mb", "DYN_HTTP_BODY_LIMIT_MB", kInt, "45", "", "MIB", "HTTP", kFrontend | kServe,
        "Largest request body, 413 beyond it.", 1, 1024},
    OptionSpec{"max-connections", "TANDEM_MAX_CONNECTIONS", kInt, "4096", "", "N", "HTTP", kFrontend | kServe,
        "Client connections kept open at once.", 1, 1e6},
    OptionSpec{"max-inflight", "TANDEM_MAX_INFLIGHT", kInt, "2048", "", "N", "HTTP", kFrontend | kServe,
        "Requests under way at once; one more is refused with Retry-After.", 1, 1e6},
    OptionSpec{"overload-status", "DYN_HTTP_OVERLOAD_STATUS_CODE", kInt, "529", "", "CODE", "HTTP", kFrontend | kServe,
        "HTTP status of such a refusal.", 400, 599},
    OptionSpec{"metrics-prefix", "DYN_METRICS_PREFIX", kText, "dynamo_frontend", "", "NAME", "HTTP", kFrontend | kServe,
        "First part of the names of the frontend's metrics."},

    OptionSpec{"trust-request-chat-template", "TANDEM_TRUST_REQUEST_CHAT_TEMPLATE", kBool, "false", "", "", "HTTP", kFrontend | kServe,
        "Render the chat_template of a request that brings one; without it such a request is refused."},
    OptionSpec{.name = "template-clock", .type = kInt, .value_name = "SECONDS", .group = "HTTP", .commands = kFrontend | kServe,
        .help = "The time that templates see, in seconds since 1970.", .minimum = 0, .maximum = 4e12, .hidden = true},

    // Routing
    OptionSpec{"router-mode", "DYN_ROUTER_MODE", kText, "round-robin", "round-robin|random", "MODE", "Routing", kFrontend | kServe,
        "How a worker is chosen among those of its role."},
    OptionSpec{"enforce-disagg", "DYN_ENFORCE_DISAGG", kBool, "false", "", "", "Routing", kFrontend | kServe,
        "Answer 503 when no prefill worker can do its part, instead of computing the prompt on a decode worker."},
    OptionSpec{"model-name", "DYN_MODEL_NAME", kText, "", "", "NAME", "Routing", kFrontend,
        "Serve only this model; without it, every model that workers register."},
    OptionSpec{"worker-inhibit", "DYN_RUNTIME_INHIBITED_DURATION_SECS", kNumber, "3", "", "SECONDS", "Routing", kFrontend | kServe,
        "How long a worker is left alone after its connection broke.", 0, 3600},
    OptionSpec{"artifact-cache-mb", "TANDEM_ARTIFACT_CACHE_MB", kInt, "256", "", "MIB", "Routing", kFrontend | kServe,
        "Memory for tokenizers and templates fetched from workers.", 1, 65536},

    // Model
    OptionSpec{"model", "", kText, "", "", "FILE", "Model", kWorker,
        "The model: a .gguf file, a folder as on the Hugging Face hub, or a name there (org/name, org/name:Q4_K_M, org/name@revision), looked up in its cache, else downloaded. Optional for the mock engine."},
    OptionSpec{"revision", "", kText, "", "", "REVISION", "Model", kServing,
        "Branch, tag or commit of a model on the hub. Without it, main."},
    OptionSpec{"served-model-name", "", kList, "", "", "NAME", "Model", kServing,
        "Name of the model for clients; further names are aliases. Without it, the file's name, or the name on the hub."},
    OptionSpec{"engine", "TANDEM_ENGINE", kText, "auto", "auto|native|mock", "ENGINE", "Model", kWorker | kServe,
        "native computes on the CPU; auto does too, but refuses a model of more than 70 % of the free memory; mock replaces the model by a latency model."},
    OptionSpec{"max-model-len", "", kAutoSize, "auto", "", "N", "Model", kServing,
        "Longest prompt and answer together, in tokens, e.g. 32k (32000) or 32K (32768). auto, -1 or 0: the model's own, cut to what the KV arena holds.", -1, kMaxSize},
    OptionSpec{"tokenizer", "", kText, "", "", "PATH", "Model", kServing,
        "Tokenizer in place of the model's own: a folder that holds one, or a .gguf file."},
    OptionSpec{"hf-overrides", "", kText, "", "", "JSON", "Model", kServing,
        "Members that replace those of the model's config.json, e.g. '{\"rope_theta\":1000000}'; for folders in Hugging Face layout."},
    OptionSpec{"dtype", "", kText, "auto", "auto|float32|bfloat16|float16", "DTYPE", "Model", kServing,
        "Weights stay what the file has and are computed with in float32 whatever this says; float32 also makes the KV cache float32."},
    OptionSpec{"cache-dir", "TANDEM_CACHE", kText, "", "", "FOLDER", "Model", kServing,
        "Where packed weights are kept between starts. Without it, ~/.cache/tandem."},
    OptionSpec{"isa", "TANDEM_ISA", kText, "", "", "NAME", "Model", kServing,
        "Forces one instruction-set path (plain, avx2, ...); without it, the best one of this CPU."},

    OptionSpec{"generation-config", "", kText, "auto", "", "FROM", "Model", kServing,
        "Where sampling defaults of requests come from: auto (the model's generation_config.json), vllm (none), or a folder that has that file."},
    OptionSpec{"override-generation-config", "", kText, "", "", "JSON", "Model", kServing,
        "Sampling defaults that win over those, e.g. '{\"temperature\":0.5}'; known are temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens."},

    // Chat template
    OptionSpec{"chat-template", "", kText, "", "", "FILE", "Chat template", kServing,
        "Chat template in place of the model's own: a file, or the template's text itself."},
    OptionSpec{"custom-jinja-template", "DYN_CUSTOM_JINJA_TEMPLATE", kText, "", "", "FILE", "Chat template", kServing,
        "The same, a file only; ~ and $NAME in its path are replaced."},
    OptionSpec{"chat-template-content-format", "", kText, "auto", "auto|string|openai", "FORM", "Chat template", kServing,
        "How templates get the contents of messages: string (text), openai (lists of parts), auto (as the template expects)."},

    // Role
    OptionSpec{"disaggregation-mode", "DYN_VLLM_DISAGGREGATION_MODE", kText, "agg", "agg|pd|prefill|decode", "ROLE", "Role", kWorker,
        "agg (or pd) does both phases; prefill and decode split them and need --kv-transfer-config."},
    OptionSpec{"is-prefill-worker", "DYN_VLLM_IS_PREFILL_WORKER", kBool, "false", "", "", "Role", kWorker,
        "Deprecated: --disaggregation-mode prefill."},
    OptionSpec{"is-decode-worker", "DYN_VLLM_IS_DECODE_WORKER", kBool, "false", "", "", "Role", kWorker,
        "Deprecated: --disaggregation-mode decode."},
    OptionSpec{"kv-transfer-config", "", kText, "", "", "JSON", "Role", kWorker | kServe,
        "How KV moves between workers; '{}' stands for '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}'."},
    OptionSpec{"side-channel-host", "VLLM_NIXL_SIDE_CHANNEL_HOST", kText, "127.0.0.1", "", "HOST", "Role", kWorker,
        "Address at which other workers fetch this worker's KV."},
    OptionSpec{"side-channel-port", "VLLM_NIXL_SIDE_CHANNEL_PORT", kInt, "0", "", "PORT", "Role", kWorker,
        "Its port; 0 takes any free one and advertises it.", 0, kMaxPort},
    OptionSpec{"kv-transports", "TANDEM_KV_TRANSPORTS", kList, "shm,tcp", "shm|tcp", "NAME", "Role", kWorker | kServe,
        "Ways to read KV from another worker, best first: shm works within one host, tcp everywhere."},

    // Scheduling
    OptionSpec{"block-size", "", kInt, "16", "", "TOKENS", "Scheduling", kServing,
        "Tokens in one KV block.", 1, 1024},
    OptionSpec{"max-num-seqs", "", kInt, "256", "", "N", "Scheduling", kServing,
        "Most sequences that run at once.", 1, 65536},
    OptionSpec{"max-num-batched-tokens", "", kSize, "0", "", "N", "Scheduling", kServing,
        "Most tokens in one step. 0: 512 on this engine.", 0, kMaxInt32},
    OptionSpec{"max-waiting", "TANDEM_MAX_WAITING", kInt, "1024", "", "N", "Scheduling", kServing,
        "Requests that may wait in a worker; one more is refused.", 0, 1e6},
    OptionSpec{"enable-prefix-caching", "", kBool, "true", "", "", "Scheduling", kServing,
        "Keep the KV of finished requests for prompts that start the same."},
    OptionSpec{"hash-seed", "PYTHONHASHSEED", kText, "", "", "TEXT", "Scheduling", kWorker,
        "Start value of the block hashes; all workers of a model need the same."},

    // Memory and cores
    OptionSpec{"kv-cache-dtype", "", kText, "auto", "auto|bfloat16|float16|int8_per_token_head|float32", "DTYPE", "Memory and cores", kServing,
        "What keys and values are kept as. auto: float16, under --dtype float32 float32. int8_per_token_head halves float16's memory. Workers of a pair need the same."},
    OptionSpec{"num-gpu-blocks-override", "", kInt, "0", "", "N", "Memory and cores", kServing,
        "Size of the KV arena in blocks. 0: chosen from the available memory.", 0, kMaxInt32},
    OptionSpec{"kv-cache-memory-bytes", "", kSize, "0", "", "BYTES", "Memory and cores", kServing,
        "Size of the KV arena in bytes, e.g. 2G. 0: chosen from the available memory.", 0, kMaxSize},
    OptionSpec{"workers-on-host", "TANDEM_WORKERS_ON_HOST", kInt, "1", "", "N", "Memory and cores", kWorker,
        "Workers that share this machine's memory; `tandem serve` sets it.", 1, 1024},
    OptionSpec{"threads", "TANDEM_THREADS", kInt, "0", "", "N", "Memory and cores", kServing,
        "Compute threads of a worker. 0: as many as it may use cores.", 0, 1024},
    OptionSpec{"cpu-share", "TANDEM_CPU_SHARE", kNumber, "0", "", "SHARE", "Memory and cores", kWorker,
        "Part of the cores for this worker, above 0 up to 1, where workers cannot see each other. 0: they agree by a board in shared memory.", 0, 1},
    OptionSpec{"core-board", "TANDEM_CORE_BOARD", kText, "", "", "FOLDER", "Memory and cores", kWorker,
        "Folder of that board; without it, /dev/shm."},

    // Mock engine
    OptionSpec{"mock-step-us", "", kNumber, "500", "", "US", "Mock engine", kWorker | kServe,
        "Fixed time of a step, in microseconds.", 0, 1e9},
    OptionSpec{"mock-prefill-token-us", "", kNumber, "50", "", "US", "Mock engine", kWorker | kServe,
        "Time per prompt token in a step.", 0, 1e9},
    OptionSpec{"mock-decode-token-us", "", kNumber, "500", "", "US", "Mock engine", kWorker | kServe,
        "Time per generating sequence in a step.", 0, 1e9},
    OptionSpec{"mock-vocab", "", kInt, "32000", "", "N", "Mock engine", kWorker | kServe,
        "Token ids that it draws from.", 300, 1e7},
    OptionSpec{"mock-context-length", "", kSize, "131072", "", "N", "Mock engine", kWorker | kServe,
        "Context length that it claims.", 1, kMaxSize},
    OptionSpec{"mock-block-bytes", "", kSize, "4096", "", "BYTES", "Mock engine", kWorker | kServe,
        "Bytes of a KV block, so that transfers move real bytes.", 8, 1e9},

    // Planes
    OptionSpec{"namespace", "DYN_NAMESPACE", kText, "dynamo", "", "NAME", "Planes", kProcesses,
        "Workers and frontends see each other within one namespace."},
    OptionSpec{"discovery-backend", "DYN_DISCOVERY_BACKEND", kText, "file", "file|mem", "NAME", "Planes", kProcesses,
        "file: a folder that the processes of a host share. mem: within one process only."},
    OptionSpec{"discovery-path", "DYN_FILE_KV", kText, "", "", "FOLDER", "Planes", kProcesses,
        "That folder; without it, $XDG_RUNTIME_DIR/tandem or /tmp/tandem-<uid>."},
    OptionSpec{"request-plane", "DYN_REQUEST_PLANE", kText, "tcp", "tcp", "NAME", "Planes", kProcesses,
        "How frontends talk to workers."},
    OptionSpec{"rpc-host", "DYN_TCP_RPC_HOST", kText, "127.0.0.1", "", "HOST", "Planes", kWorker,
        "Address on which a worker takes requests."},
    OptionSpec{"rpc-port", "DYN_TCP_RPC_PORT", kInt, "0", "", "PORT", "Planes", kWorker,
        "Its port; 0 takes any free one.", 0, kMaxPort},
    OptionSpec{"advertise-host", "TANDEM_ADVERTISE_HOST", kText, "", "", "HOST", "Planes", kWorker,
        "Address that others are told, where it differs from those listened on."},
    OptionSpec{"system-host", "DYN_SYSTEM_HOST", kText, "127.0.0.1", "", "HOST", "Planes", kWorker,
        "Address of the worker's own /health, /live and /metrics."},
    OptionSpec{"system-port", "DYN_SYSTEM_PORT", kInt, "-1", "", "PORT", "Planes", kWorker,
        "Their port; -1: off, 0: any free one.", -1, kMaxPort},
    OptionSpec{"drain-timeout", "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS", kNumber, "5", "", "SECONDS", "Planes", kProcesses | kServe,
        "After Ctrl-C or SIGTERM: time for requests under way to end.", 0, 3600},
    OptionSpec{"status-fd", "TANDEM_STATUS_FD", kInt, "-1", "", "FD", "Planes", kProcesses,
        "Descriptor to which progress, the final address and then signs of life are written, one line each; `tandem serve` uses it.", -1, 1e6},
    // clang-format on
};

}  // namespace

std::span<const CommandSpec> Commands() { return kCommands; }

const CommandSpec* FindCommand(std::string_view name) {
  for (const CommandSpec& spec : kCommands)
    if (!name.empty() && (name == spec.name || name == spec.alias)) return &spec;
  return nullptr;
}

const CommandSpec& SpecOf(Command command) {
  const auto found = std::ranges::find(kCommands, command, &CommandSpec::command);
  CHECK(found != kCommands.end());
  return *found;
}

std::span<const OptionSpec> Options() { return kOptions; }

std::vector<const OptionSpec*> OptionsOf(Command command) {
  std::vector<const OptionSpec*> found;
  for (const OptionSpec& spec : kOptions)
    if ((spec.commands & command) != 0) found.push_back(&spec);
  return found;
}

}  // namespace tandem::apps

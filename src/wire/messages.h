// What frontend, router and workers say to each other over the request plane, and what a worker
// publishes about itself. docs/contracts/frontend-worker.md is the contract; messages_codec.cc maps
// these structs to msgpack maps with the field names used here. Additive only within a major
// version: unknown fields are ignored, absent ones keep the defaults below.
#ifndef TANDEM_WIRE_MESSAGES_H_
#define TANDEM_WIRE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::wire {

using TokenId = int32_t;

// Methods of the request plane that a worker serves.
inline constexpr std::string_view kMethodGenerate = "generate";  // GenerateRequest -> GenerateItem*
inline constexpr std::string_view kMethodRelease = "release";    // ReleaseRequest -> nothing
inline constexpr std::string_view kMethodArtifact = "artifact";  // ArtifactRequest -> bytes*

// Sampling, resolved: the frontend has applied defaults and checked ranges (spec of the order of
// the steps: model/sampler.h).
struct Sampling {
  double temperature = 1.0;
  double top_p = 1.0;
  int32_t top_k = 0;  // 0: off
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::optional<int64_t> seed;  // absent: the frontend drew one (always set on the wire)
  std::map<TokenId, double> logit_bias;
  std::vector<TokenId> allowed_token_ids;
  std::vector<std::vector<TokenId>> bad_words;  // token sequences
};

struct GenerateRequest {
  // The client's x-request-id, or one made by the frontend, plus a random suffix: never used for
  // two requests. The prefill and decode legs of a request share it.
  std::string request_id;
  std::string model;
  std::vector<TokenId> prompt;
  Sampling sampling;
  int32_t n = 1;  // choices: one prefill, one lease, forked after it
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  int32_t logprobs = -1;  // top-n to return per token; -1: none, 0: the sampled token's only
  int32_t prompt_logprobs = -1;
  std::string cache_salt;
  int32_t priority = 0;
  // JSON text, as the reference's kv_transfer_params. To a prefill worker: do_remote_decode true.
  // To a decode worker: the object that the prefill worker returned, verbatim. Empty: local.
  std::string kv_transfer_params;
  std::string trace_id;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
  int32_t rank = 0;  // 1 = most likely
  std::vector<std::pair<TokenId, float>> top;
};

// Why a choice ended.
enum class FinishReason : uint8_t { kNone = 0, kStop = 1, kLength = 2, kAbort = 3, kError = 4 };

// One piece of the answer to GenerateRequest: tokens of one choice since the last piece.
struct GenerateItem {
  int32_t choice = 0;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;  // one per token, if asked for
  FinishReason finish = FinishReason::kNone;
  std::optional<TokenId> stop_token;  // the eos or stop id that ended it
  // On the first item of choice 0:
  int32_t cached_tokens = 0;  // prompt tokens found in this worker's prefix cache
  int32_t pulled_tokens = 0;  // prompt tokens whose KV was pulled
  int64_t pulled_bytes = 0;
  double pull_seconds = 0;
  std::string pull_transport;          // "shm", "tcp" or ""
  int32_t computed_prompt_tokens = 0;  // prompt tokens computed here (1 after a full pull)
  std::string fallback_reason;  // non-empty: the pull failed and the prompt was computed here
  // On the last item of a prefill leg:
  std::string kv_transfer_params;
};

// To a prefill worker: nobody will collect the KV of this request, so its lease ends now. Sent on
// the same connection as the generate call, after its cancel frame if there was one: what the
// worker does for it happens after the cancel. Unknown or ended ones are fine (idempotent).
struct ReleaseRequest {
  std::string request_id;
};

struct ArtifactRequest {
  std::string digest;  // SHA-256, hex
};

// What a worker publishes about the model it serves.
struct ModelCard {
  std::string name;
  std::vector<std::string> aliases;
  std::string role;  // "agg", "prefill", "decode"
  int64_t max_model_len = 0;
  int32_t kv_block_size = 0;
  int64_t total_kv_blocks = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  // SHA-256 (hex) of the artefacts; a frontend fetches them by digest (kMethodArtifact).
  std::string tokenizer_digest;
  std::string template_digest;
  std::string generation_config_digest;
  // How the template wants the contents of messages: "auto" (or ""), "string", "openai".
  std::string content_format;
  std::string weights_digest;
  std::string kv_layout_id;
  std::string numerics_id;
  std::string kv_connector;  // from --kv-transfer-config; "" if none
  std::string engine;        // "native", "mock"
};

// One live instance of an endpoint, as discovery knows it.
struct Instance {
  uint64_t id = 0;              // random per process start: a restart is another instance
  std::string ns;               // dyn://ns.component.endpoint
  std::string component;        // "backend" (agg, decode), "prefill"
  std::string endpoint;         // "generate"
  std::string address;          // request plane, host:port
  std::string system_address;   // system server, host:port; "" if off
  int64_t started_unix_ms = 0;  // earliest registered decides in digest conflicts
  ModelCard card;
};

using Bytes = std::vector<std::byte>;

Bytes Encode(const GenerateRequest& m);
Bytes Encode(const GenerateItem& m);
Bytes Encode(const ArtifactRequest& m);
Bytes Encode(const ReleaseRequest& m);
Bytes Encode(const Instance& m);
Result<GenerateRequest> DecodeGenerateRequest(std::span<const std::byte> bytes);
Result<GenerateItem> DecodeGenerateItem(std::span<const std::byte> bytes);
Result<ReleaseRequest> DecodeReleaseRequest(std::span<const std::byte> bytes);
Result<ArtifactRequest> DecodeArtifactRequest(std::span<const std::byte> bytes);
Result<Instance> DecodeInstance(std::span<const std::byte> bytes);

}  // namespace tandem::wire

#endif  // TANDEM_WIRE_MESSAGES_H_

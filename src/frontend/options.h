// What a frontend can be told. The command line maps its flags and variables to this struct; the
// defaults here are the flags' defaults.
#ifndef TANDEM_FRONTEND_OPTIONS_H_
#define TANDEM_FRONTEND_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace tandem::frontend {

struct FrontendOptions {
  std::string host = "127.0.0.1";  // --http-host, DYN_HTTP_HOST
  uint16_t port = 8000;            // --http-port, DYN_HTTP_PORT; 0: the kernel chooses
  std::string ns = "dynamo";       // --namespace, DYN_NAMESPACE: whose instances are served
  std::string model_name;          // --model-name: serve only this model; empty: all
  std::string router_mode = "round-robin";  // --router-mode: round-robin, random
  // --enforce-disagg: without a working prefill leg answer 503 instead of computing the prompt on
  // the decode worker.
  bool enforce_disagg = false;
  // --request-timeout: longest time of a request; x-request-timeout-ms may shorten it.
  Duration request_timeout = std::chrono::seconds(600);
  size_t body_limit = size_t{45} << 20;  // DYN_HTTP_BODY_LIMIT_MB
  size_t max_connections = 4096;
  // Requests that may be under way; one more is answered 529 with Retry-After.
  size_t max_inflight = 2048;
  int overload_status = 529;                          // DYN_HTTP_OVERLOAD_STATUS_CODE
  Duration worker_inhibit = std::chrono::seconds(3);  // after a connection loss
  std::string metrics_prefix = "dynamo_frontend";     // --metrics-prefix, DYN_METRICS_PREFIX
  // --trust-request-chat-template: render a chat_template that a request brings along.
  bool trust_request_chat_template = false;
  // --template-clock: what strftime_now of templates sees, seconds since 1970; absent: the time.
  std::optional<int64_t> template_clock;
  // Tokenizers and templates kept in memory, in bytes of their artefacts.
  size_t artifact_cache_bytes = size_t{256} << 20;
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_OPTIONS_H_

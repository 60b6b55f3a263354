// HTTP requests after validation: every value has its type and lies in its range. What depends on
// the model (context length, vocabulary) is checked later.
#ifndef TANDEM_FRONTEND_REQUEST_H_
#define TANDEM_FRONTEND_REQUEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/json.h"
#include "wire/messages.h"

namespace tandem::frontend {

using wire::TokenId;

// What chat and completions share.
struct GenerateParams {
  std::string model;
  // Absent: the model's generation config, then the built-in default.
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<int64_t> seed;
  std::map<TokenId, double> logit_bias;
  std::vector<TokenId> allowed_token_ids;
  std::vector<std::string> bad_words;

  int64_t n = 1;
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  int64_t logprobs = -1;  // alternatives per token; -1: no log probabilities
  bool return_token_ids = false;
  bool return_tokens_as_token_ids = false;
  bool echo = false;
  bool add_special_tokens = true;

  std::string cache_salt;
  int64_t priority = 0;
  std::string request_id;  // of the body; the header wins
  // nvext.extra_fields: what the client wants to know about the way its request took.
  bool want_worker_id = false;
  bool want_timing = false;
  bool want_kv = false;
};

// What decides the text of a chat prompt.
struct ChatPrompt {
  wire::Json messages;   // array of at least one object with a role
  wire::Json tools;      // array of objects, or null
  wire::Json documents;  // array of objects, or null
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::string chat_template;     // empty: the model's own
  wire::Json::Object variables;  // chat_template_kwargs
};

struct ChatRequest {
  GenerateParams params;
  ChatPrompt prompt;
};

// One prompt of a completion: text or token ids.
using PlainPrompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerateParams params;
  std::vector<PlainPrompt> prompts;  // at least one
};

struct TokenizeRequest {
  std::string model;
  std::variant<std::string, ChatPrompt> prompt;
  bool add_special_tokens = true;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

inline constexpr size_t kMaxPrompts = 256;    // in one completion request
inline constexpr int64_t kMaxChoices = 128;   // of one prompt
inline constexpr int64_t kMaxAnswers = 1024;  // prompts times choices

// Errors are kInvalidArgument (or kUnsupported for a field that is known but not served) and name
// the field in `param`; JSON errors say where.
Result<ChatRequest> ParseChatRequest(std::string_view body);
Result<CompletionRequest> ParseCompletionRequest(std::string_view body);
Result<TokenizeRequest> ParseTokenizeRequest(std::string_view body);
Result<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_REQUEST_H_

// From a validated request to what a worker gets: prompt ids and resolved parameters. Pure; errors
// name the field.
#ifndef TANDEM_FRONTEND_PROMPT_H_
#define TANDEM_FRONTEND_PROMPT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/assets.h"
#include "frontend/request.h"
#include "wire/messages.h"

namespace tandem::frontend {

struct RenderSettings {
  int64_t now = 0;                      // local wall-clock time in seconds since 1970
  bool trust_request_template = false;  // else a request's own chat_template is refused
};

// The text of a conversation.
Result<std::string> RenderChat(const ModelAssets& assets, const ChatPrompt& prompt,
                               const RenderSettings& settings);

// kUnsupported if the model has no tokenizer.
Result<std::vector<TokenId>> EncodeText(const ModelAssets& assets, std::string_view text,
                                        bool add_special_tokens);
// Ids as they came from a client: all of them must be in the vocabulary.
Status CheckIds(const ModelAssets& assets, std::span<const TokenId> ids, std::string_view field);

// Everything of the request but prompt, model name and ids. `prompt_tokens` decides max_tokens: it
// is cut to the context (kContextLength if the prompt alone fills it) and to the model's
// max_new_tokens. `random_seed` is used where
// the client gave no seed.
Result<wire::GenerateRequest> Resolve(const GenerateParams& params, const ModelAssets& assets,
                                      int64_t prompt_tokens, int64_t max_model_len,
                                      uint64_t random_seed);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_PROMPT_H_

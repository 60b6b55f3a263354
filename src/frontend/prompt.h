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
#include "text/value.h"
#include "wire/json.h"
#include "wire/messages.h"

namespace tandem::frontend {

text::Value ToValue(const wire::Json& json);

// The text of a conversation. `now` is local wall-clock time in seconds since 1970.
Result<std::string> RenderChat(const ModelAssets& assets, const ChatPrompt& prompt, int64_t now);

// kUnsupported if the model has no tokenizer.
Result<std::vector<TokenId>> EncodeText(const ModelAssets& assets, std::string_view text,
                                        bool add_special_tokens);
// Ids as they came from a client: all of them must be in the vocabulary.
Status CheckIds(const ModelAssets& assets, std::span<const TokenId> ids, std::string_view field);

// Everything of the request but prompt, model name and ids. `prompt_tokens` decides max_tokens: it
// is cut to the context (kContextLength if the prompt alone fills it). `random_seed` is used where
// the client gave no seed.
Result<wire::GenerateRequest> Resolve(const GenerateParams& params, const ModelAssets& assets,
                                      int64_t prompt_tokens, int64_t max_model_len,
                                      uint64_t random_seed);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_PROMPT_H_

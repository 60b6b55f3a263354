// Reads what stands beside a tokenizer in a model's folder: tokenizer_config.json,
// special_tokens_map.json.
#ifndef TANDEM_TEXT_TOKENIZER_CONFIG_H_
#define TANDEM_TEXT_TOKENIZER_CONFIG_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Fills names, prefix, suffix and templates of a spec whose vocabulary has been read. Tokens of
// added_tokens_decoder that the vocabulary lacks are added.
Status ApplyTokenizerConfig(std::string_view tokenizer_config_json, TokenizerSpec& spec);

// Names that are not set yet: bos_token, eos_token, unk_token, pad_token.
Status ApplySpecialTokensMap(std::string_view json, TokenizerSpec& spec);

// added_tokens.json: {"text": id}. Texts that the vocabulary lacks, in the order of their ids.
Status ApplyAddedTokens(std::string_view json, TokenizerSpec& spec);

struct NewToken {
  std::string_view content;
  uint32_t flags;  // AddedToken's
};
// Adds tokens as Hugging Face does: each gets an id of its own unless the vocabulary has the text
// already. `model_size` is the number of tokens that the model knows. False: too many.
bool AddTokens(const std::vector<NewToken>& tokens, size_t model_size, TokenizerSpec& spec);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_CONFIG_H_

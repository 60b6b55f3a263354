// Finds and reads the tokenizer of a model's folder (Hugging Face layout).
#ifndef TANDEM_TEXT_TOKENIZER_FOLDER_H_
#define TANDEM_TEXT_TOKENIZER_FOLDER_H_

#include <string>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// tokenizer.json, else tokenizer.model (SentencePiece), else tekken.json; with them
// tokenizer_config.json, special_tokens_map.json, added_tokens.json and the chat template, which
// chat_template.jinja gives before tokenizer_config.json. Errors name the folder and the file;
// kNotFound, with the files looked for, where there is no tokenizer.
Result<TokenizerSpec> ReadTokenizerFolder(const std::string& folder);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_FOLDER_H_

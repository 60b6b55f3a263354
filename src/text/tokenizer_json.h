// Reads Hugging Face's tokenizer.json.
#ifndef TANDEM_TEXT_TOKENIZER_JSON_H_
#define TANDEM_TEXT_TOKENIZER_JSON_H_

#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// `tokenizer_config_json` (tokenizer_config.json) names the beginning, end, unknown and padding
// tokens, says whether to add them, and may hold the chat template; it may be empty. kCorrupt for
// what is no such file, kUnsupported for a step that is not known; both name the part. Padding,
// truncation and dropout are for training and batches: they are not read.
Result<TokenizerSpec> ReadTokenizerJson(std::string_view json,
                                        std::string_view tokenizer_config_json);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_JSON_H_

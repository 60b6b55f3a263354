// Reads Mistral's tekken.json.
#ifndef TANDEM_TEXT_TEKKEN_H_
#define TANDEM_TEXT_TEKKEN_H_

#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// The id of an ordinary token is its rank and the number of special tokens. Files that do not list
// their special tokens have those of Mistral's first ones.
Result<TokenizerSpec> ReadTekken(std::string_view json);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TEKKEN_H_

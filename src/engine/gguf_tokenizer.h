// The tokenizer of a GGUF file.
#ifndef TANDEM_ENGINE_GGUF_TOKENIZER_H_
#define TANDEM_ENGINE_GGUF_TOKENIZER_H_

#include "base/result.h"
#include "model/tokenizer_metadata.h"
#include "text/tokenizer_spec.h"

namespace tandem::engine {

// Fails where text::ReadGgufVocabulary does.
Result<text::TokenizerSpec> MakeTokenizer(model::TokenizerMetadata metadata);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_GGUF_TOKENIZER_H_

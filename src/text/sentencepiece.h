// Reads a SentencePiece model (tokenizer.model, a protocol buffer).
#ifndef TANDEM_TEXT_SENTENCEPIECE_H_
#define TANDEM_TEXT_SENTENCEPIECE_H_

#include <string_view>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// BPE and unigram models. Ids are SentencePiece's own; beyond that, control pieces written out in a
// text are found where the caller asks for it, and BPE models put their beginning token before a
// text, unigram models their end token after it. kCorrupt for damage, kUnsupported for word and
// character models and for white space as suffix.
Result<TokenizerSpec> ReadSentencePiece(std::string_view model_proto_bytes);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_SENTENCEPIECE_H_

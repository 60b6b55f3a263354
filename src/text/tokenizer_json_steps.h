// The steps of a tokenizer.json as data. simdjson's types stay behind these functions' source.
#ifndef TANDEM_TEXT_TOKENIZER_JSON_STEPS_H_
#define TANDEM_TEXT_TOKENIZER_JSON_STEPS_H_

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace simdjson::dom {
class element;
}

namespace tandem::text {

// Each reads one part ("normalizer", ...), null included, and appends its steps; sequences are
// flattened.
Status ReadNormalizers(const simdjson::dom::element& json, TokenizerSpec& spec);
Status ReadPreTokenizers(const simdjson::dom::element& json, TokenizerSpec& spec);
Status ReadPostProcessor(const simdjson::dom::element& json, TokenizerSpec& spec);
Status ReadDecoders(const simdjson::dom::element& json, TokenizerSpec& spec);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_JSON_STEPS_H_

// The pre-tokenisers that tokenizer.ggml.pre names.
#ifndef TANDEM_TEXT_GGUF_PRE_H_
#define TANDEM_TEXT_GGUF_PRE_H_

#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

struct GgufPre {
  std::vector<std::string_view> patterns;  // each splits what the ones before left
  bool ignore_merges = false;
  bool add_bos = false;      // unless the file says otherwise
  bool clean_spaces = true;  // when a whole text is decoded
  bool plain_text = false;   // words are text with U+2581 for spaces, not bytes
};

// kUnsupported lists the known names. An empty name is "default".
Result<GgufPre> FindGgufPre(std::string_view name);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_GGUF_PRE_H_

// Text of one sequence as its tokens arrive, never splitting a character.
#ifndef TANDEM_TEXT_DETOKENIZER_H_
#define TANDEM_TEXT_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem::text {

// All that Push and Flush return, joined, equals tokenizer.Decode of all ids. One thread at a time;
// the tokenizer outlives this.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that `id` completes; empty while a character is still incomplete.
  std::string Push(int32_t id);
  // At the end of the sequence: an incomplete character becomes U+FFFD.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  Utf8Decoder decoder_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_DETOKENIZER_H_

// Text of one sequence as its tokens arrive, never splitting a character.
#ifndef TANDEM_TEXT_DETOKENIZER_H_
#define TANDEM_TEXT_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace tandem::text {

// All that Push and Flush return, joined, equals tokenizer.Decode of all ids, but for what
// DecodeState::Mode::kStream says. One thread at a time; the tokenizer outlives this.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer),
        skip_special_tokens_(skip_special_tokens),
        state_(tokenizer.decoder(), DecodeState::Mode::kStream) {}

  // The text that `id` completes; empty while a character is still incomplete.
  std::string Push(int32_t id);
  // At the end of the sequence: an incomplete character becomes U+FFFD.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  DecodeState state_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_DETOKENIZER_H_

// Text to token ids and back, equal to Hugging Face tokenizers on a tokenizer.json, to
// SentencePiece on its models and to llama.cpp on GGUF vocabularies.
#ifndef TANDEM_TEXT_TOKENIZER_H_
#define TANDEM_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

struct EncodeOptions {
  bool add_special_tokens = true;  // the model's own beginning and end tokens, where it has them
  bool parse_special = true;       // control tokens written out in the text become their id
};

// Any number of threads may use one tokenizer at once. Time is linear in the text but for a
// logarithm on single words of many thousand bytes.
class Tokenizer {
 public:
  // Fails where Validate does, and where a pattern or a map of a step cannot be used.
  static Result<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes are accepted; those that are not UTF-8 are taken as U+FFFD. Of a text of more than
  // 64 MiB the rest is left out. What the vocabulary cannot express is left out or unknown, as the
  // model says.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;

  // Valid UTF-8 always: what is cut or broken becomes U+FFFD. Ids outside the vocabulary give
  // nothing (see IsValid).
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  bool IsValid(int32_t id) const;
  // Those that skip_special_tokens leaves out.
  bool IsSpecial(int32_t id) const;
  // The bytes of a token by itself, possibly part of a character; empty for an id outside the
  // vocabulary.
  std::string_view TokenBytes(int32_t id) const;
  // How the vocabulary itself writes the token (byte alphabet for gpt2).
  std::string_view TokenText(int32_t id) const;
  int32_t VocabSize() const;
  // As given to Create, without merges and scores.
  const TokenizerSpec& spec() const;
  const Decoder& decoder() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_H_

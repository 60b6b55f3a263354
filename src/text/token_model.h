// What turns one word into token ids.
#ifndef TANDEM_TEXT_TOKEN_MODEL_H_
#define TANDEM_TEXT_TOKEN_MODEL_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Any number of threads may use one model at once.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of a word, which is valid UTF-8 and not empty.
  virtual void Encode(std::string_view word, std::vector<int32_t>& out) const = 0;
};

// `spec` was validated and outlives the model. Fails where vocabulary and rules do not fit
// together.
Result<std::unique_ptr<Model>> MakeModel(const TokenizerSpec& spec);
Result<std::unique_ptr<Model>> MakeBpeModel(const TokenizerSpec& spec);
Result<std::unique_ptr<Model>> MakeUnigramModel(const TokenizerSpec& spec);
Result<std::unique_ptr<Model>> MakeWordPieceModel(const TokenizerSpec& spec);

// The tokens that the model knows: all but those that only `added` brings, and holes.
std::vector<bool> TokensOfModel(const TokenizerSpec& spec);
// "<0xAB>" to its byte; -1 for any other token.
int ByteOfToken(std::string_view token);
// The ids of <0x00> to <0xFF>, -1 where the vocabulary lacks one.
std::vector<int32_t> ByteTokenIds(const TokenizerSpec& spec);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKEN_MODEL_H_

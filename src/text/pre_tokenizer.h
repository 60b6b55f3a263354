// Splits text into the words that byte-pair merging may not cross. Each split follows a published
// regular expression, hand-coded over character classes; the tests hold them against PCRE2.
#ifndef TANDEM_TEXT_PRE_TOKENIZER_H_
#define TANDEM_TEXT_PRE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

class PreTokenizer {
 public:
  // By the name in tokenizer.ggml.pre (empty: "default"). kUnsupported lists the known names.
  static Result<PreTokenizer> Find(std::string_view name);

  // Appends the length in bytes of each word, in order; together they are text.size(). `text` is
  // valid UTF-8. Linear in the text.
  void Split(std::string_view text, std::vector<uint32_t>& lengths) const;

  // Words that are in the vocabulary are tokens, whatever the merges say.
  bool ignore_merges() const { return ignore_merges_; }

 private:
  // kGpt2: the split of GPT-2. kDigitsGpt2: first every number character alone, then that of GPT-2.
  // kLlama3 and kQwen2: that of GPT-4's family, with numbers in groups of up to 3 or alone.
  // kDefault: punctuation runs, then GPT-2, then numbers, then groups of three ASCII digits.
  enum class Kind : uint8_t { kGpt2, kDigitsGpt2, kLlama3, kQwen2, kDefault };
  struct Row;
  static const Row kRows[];

  PreTokenizer(Kind kind, bool ignore_merges) : kind_(kind), ignore_merges_(ignore_merges) {}

  Kind kind_;
  bool ignore_merges_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_PRE_TOKENIZER_H_

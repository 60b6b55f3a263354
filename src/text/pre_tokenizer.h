// The pre-tokenisers of a tokenizer: text to the words that the model sees.
#ifndef TANDEM_TEXT_PRE_TOKENIZER_H_
#define TANDEM_TEXT_PRE_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Words are ranges of a text that the steps may have rewritten, in order, none empty.
class Words {
 public:
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  std::string_view text;
  std::vector<Range> ranges;

  std::string_view operator[](size_t i) const {
    return text.substr(ranges[i].begin, ranges[i].end - ranges[i].begin);
  }

 private:
  friend class PreTokenizer;
  std::string buffer_;
  std::string spare_;
  std::vector<Range> next_;
  std::vector<Regex::Match> matches_;
};

// Immutable: any number of threads may use one at once, each with words of its own.
class PreTokenizer {
 public:
  // Fails where a pattern cannot be used.
  static Result<PreTokenizer> Create(const std::vector<PipelineStep<PreTokenizerKind>>& steps);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // `text` is valid UTF-8 below 1 GiB that outlives the words. `at_start`: it begins where the
  // whole text does.
  void Split(std::string_view text, bool at_start, Words& words) const;

 private:
  struct Step;
  explicit PreTokenizer(std::vector<Step> steps);

  static void Apply(const Step& step, bool at_start, Words& words);
  static void SplitEach(const Step& step, Words& words);
  static void FindMatches(const Step& step, std::string_view word, Words& words);
  static void AppendPieces(SplitBehavior behavior, bool invert, std::string_view word,
                           uint32_t offset, Words& words);
  static void ByteLevel(const Step& step, Words& words);
  static void Metaspace(const Step& step, bool at_start, Words& words);
  static void FixedLength(const Step& step, Words& words);

  std::vector<Step> steps_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_PRE_TOKENIZER_H_

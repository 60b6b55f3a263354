// The normalisers of a tokenizer, one after the other.
#ifndef TANDEM_TEXT_NORMALIZER_H_
#define TANDEM_TEXT_NORMALIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Immutable: any number of threads may use one at once.
class Normalizer {
 public:
  // Fails where a step's pattern or map cannot be used.
  static Result<Normalizer> Create(const std::vector<PipelineStep<NormalizerKind>>& steps);
  Normalizer(Normalizer&&) noexcept;
  Normalizer& operator=(Normalizer&&) noexcept;
  ~Normalizer();

  struct Buffers {
    std::string first;
    std::string second;
  };
  // The normalised form of valid UTF-8, in `buffers` or the text itself where nothing changes.
  // `at_start`: the text begins where the whole text does. A step whose replacements would make the
  // text more than 64 times as long is left out.
  std::string_view Apply(std::string_view text, bool at_start, Buffers& buffers) const;

  bool empty() const { return steps_.empty(); }

 private:
  struct Step;
  explicit Normalizer(std::vector<Step> steps);
  std::vector<Step> steps_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_NORMALIZER_H_

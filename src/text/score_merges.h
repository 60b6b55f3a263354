// Merge rules of a vocabulary that has scores instead (SentencePiece's BPE).
#ifndef TANDEM_TEXT_SCORE_MERGES_H_
#define TANDEM_TEXT_SCORE_MERGES_H_

#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Appends a rule for every way to make a token from two others, best score first. `mergeable[id]`:
// the token takes part.
Status AddScoreMerges(const std::vector<bool>& mergeable, TokenizerSpec& spec);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_SCORE_MERGES_H_

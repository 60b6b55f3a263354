// SentencePiece's compiled map of characters (precompiled_charsmap): a double-array trie (darts
// clone: u32 units) over byte strings, and the texts that they become.
#ifndef TANDEM_TEXT_CHARSMAP_H_
#define TANDEM_TEXT_CHARSMAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

class Charsmap {
 public:
  // u32 size of the trie in bytes, the trie, NUL-terminated texts. kCorrupt where the sizes do not
  // fit; offsets inside are checked at every step.
  static Result<Charsmap> Parse(std::string_view bytes);

  struct Match {
    size_t bytes;  // of the text
    std::string_view text;
  };
  // The shortest or longest entry that `text` begins with.
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, true); }
  std::optional<Match> Longest(std::string_view text) const { return Find(text, false); }

  // As Hugging Face tokenizers applies it: by grapheme clusters of fewer than 6 bytes, then by
  // characters, the shortest entry each.
  void AppendByGraphemes(std::string_view text, std::string& out) const;
  // As SentencePiece does: the longest entry at each place.
  void AppendLongest(std::string_view text, std::string& out) const;

 private:
  std::optional<Match> Find(std::string_view text, bool shortest) const;
  std::optional<std::string_view> TextAt(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_CHARSMAP_H_

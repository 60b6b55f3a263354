// Finds added tokens that are written out in the text.
#ifndef TANDEM_TEXT_ADDED_TOKENS_H_
#define TANDEM_TEXT_ADDED_TOKENS_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_trie.h"
#include "text/normalizer.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// Immutable: any number of threads may use one at once.
class AddedTokens {
 public:
  // Those of the spec whose kNormalized flag is `normalized`; their texts go through the
  // normaliser, unless they are verbatim.
  static Result<AddedTokens> Create(const TokenizerSpec& spec, bool normalized,
                                    const Normalizer& normalizer);

  struct Piece {
    static constexpr int32_t kText = -1;
    size_t begin;
    size_t end;
    int32_t id;  // kText: no token
  };
  // Appends the pieces of the text, in order; none is empty. Without parse_special, special tokens
  // are text.
  void Split(std::string_view text, bool parse_special, std::vector<Piece>& out) const;

  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    int32_t id;
    uint32_t flags;
    size_t bytes;
  };
  struct Found {
    size_t begin;
    size_t end;
    size_t entry;
  };

  AddedTokens(size_t bytes, bool longest_first) : longest_first_(longest_first), trie_(bytes) {}

  std::vector<Found> FindLeftmost(std::string_view text) const;
  std::vector<Found> FindLongest(std::string_view text, bool parse_special) const;

  bool longest_first_;
  ByteTrie trie_;  // to the index of the entry
  std::vector<Entry> entries_;
  std::bitset<256> first_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_ADDED_TOKENS_H_

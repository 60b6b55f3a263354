// Sets of code points: built from ranges and categories, then looked up in constant time.
#ifndef TANDEM_TEXT_CHAR_SET_H_
#define TANDEM_TEXT_CHAR_SET_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode_table.h"

namespace tandem::text {

// Sorted, disjoint, not adjacent ranges [first, last].
class CharRanges {
 public:
  CharRanges() = default;
  CharRanges(char32_t first, char32_t last) { ranges_.emplace_back(first, last); }
  static CharRanges Of(CategoryMask mask);
  static CharRanges WhiteSpace();
  // Oniguruma's \w, which takes the digits of superscripts and fractions in Latin-1 along.
  static CharRanges Word();

  void Add(const CharRanges& other);
  CharRanges Negated() const;
  CharRanges And(const CharRanges& other) const;
  // Adds what differs from a member in case only.
  void AddOtherCases();

  const std::vector<std::pair<char32_t, char32_t>>& ranges() const { return ranges_; }

 private:
  void Normalise();
  std::vector<std::pair<char32_t, char32_t>> ranges_;
};

// The same for matching: a bitmap in pages, equal pages stored once.
class CharSet {
 public:
  explicit CharSet(const CharRanges& ranges);

  // `c` is below 0x110000.
  bool Has(char32_t c) const { return (pages_[index_[c >> 8]][c >> 6 & 3] >> (c & 63) & 1) != 0; }
  bool HasAscii(uint8_t c) const { return (pages_[index_[0]][c >> 6] >> (c & 63) & 1) != 0; }
  bool HasBeyondAscii() const { return beyond_ascii_; }

 private:
  using Page = std::array<uint64_t, 4>;
  std::vector<uint16_t> index_;
  std::vector<Page> pages_;
  bool beyond_ascii_ = false;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_CHAR_SET_H_

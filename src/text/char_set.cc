#include "text/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

namespace tandem::text {
namespace {

constexpr char32_t kLast = internal::kCodePoints - 1;

// The cases of one letter that are letters themselves; some have a third form.
void AppendCases(char32_t c, std::vector<std::pair<char32_t, char32_t>>& out) {
  const auto add = [&](utf8proc_int32_t other) {
    if (other >= 0 && static_cast<char32_t>(other) != c) {
      out.emplace_back(static_cast<char32_t>(other), static_cast<char32_t>(other));
    }
  };
  const auto code = static_cast<utf8proc_int32_t>(c);
  add(utf8proc_tolower(code));
  add(utf8proc_toupper(code));
  add(utf8proc_totitle(code));
  switch (c) {
    case 's':
    case 'S':
      return add(0x17F);
    case 'k':
    case 'K':
      return add(0x212A);
    case 0xE5:
    case 0xC5:
      return add(0x212B);
    default:
      return;
  }
}

}  // namespace

CharRanges CharRanges::Of(CategoryMask mask) {
  CharRanges out;
  for (size_t i = 0; i < internal::kCategoryStartCount; ++i) {
    const uint32_t start = internal::kCategoryStarts[i];
    if ((MaskOf(static_cast<Category>(start & 0x1F)) & mask) == 0) continue;
    const char32_t last =
        i + 1 < internal::kCategoryStartCount ? (internal::kCategoryStarts[i + 1] >> 5) - 1 : kLast;
    out.ranges_.emplace_back(start >> 5, last);
  }
  out.Normalise();
  return out;
}

CharRanges CharRanges::WhiteSpace() {
  CharRanges out = Of(kSeparators);
  out.Add(CharRanges(9, 13));
  out.Add(CharRanges(0x85, 0x85));
  return out;
}

CharRanges CharRanges::Word() {
  CharRanges out =
      Of(kLetters | kMarks | MaskOf(Category::kNd) | MaskOf(Category::kNl) | MaskOf(Category::kPc));
  constexpr std::pair<char32_t, char32_t> kMore[] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0xBC, 0xBE},       {0x24B6, 0x24E9},
      {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
  };
  for (const auto& [first, last] : kMore) out.Add(CharRanges(first, last));
  return out;
}

void CharRanges::Add(const CharRanges& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Normalise();
}

void CharRanges::Normalise() {
  std::sort(ranges_.begin(), ranges_.end());
  size_t kept = 0;
  for (const auto& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].second + 1) {
      ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, range.second);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

CharRanges CharRanges::Negated() const {
  CharRanges out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) out.ranges_.emplace_back(next, kLast);
  return out;
}

CharRanges CharRanges::And(const CharRanges& other) const {
  CharRanges out = Negated();
  out.Add(other.Negated());
  return out.Negated();
}

void CharRanges::AddOtherCases() {
  std::vector<std::pair<char32_t, char32_t>> more;
  for (const auto& [first, last] : ranges_) {
    // A set that wide has every case already, but for oddities.
    if (last - first > 0x4000) continue;
    for (char32_t c = first; c <= last; ++c) AppendCases(c, more);
  }
  ranges_.insert(ranges_.end(), more.begin(), more.end());
  Normalise();
}

CharSet::CharSet(const CharRanges& ranges) : index_(internal::kCodePoints >> 8) {
  constexpr uint64_t kAll = ~uint64_t{0};
  std::map<Page, uint16_t> known;
  auto range = ranges.ranges().begin();
  const auto end = ranges.ranges().end();
  for (size_t page = 0; page < index_.size(); ++page) {
    const auto first = static_cast<char32_t>(page << 8);
    Page bits{};
    while (range != end && range->second < first) ++range;
    for (auto r = range; r != end && r->first < first + 256; ++r) {
      const char32_t low = std::max(r->first, first) - first;
      const char32_t high = std::min<char32_t>(r->second, first + 255) - first;
      for (size_t word = low >> 6; word <= high >> 6; ++word) {
        uint64_t mask = kAll;
        if (word == low >> 6) mask &= kAll << (low & 63);
        if (word == high >> 6) mask &= kAll >> (63 - (high & 63));
        bits[word] |= mask;
      }
    }
    const auto [at, fresh] = known.try_emplace(bits, static_cast<uint16_t>(pages_.size()));
    if (fresh) pages_.push_back(bits);
    index_[page] = at->second;
  }
  beyond_ascii_ = !ranges.ranges().empty() && ranges.ranges().back().second >= 128;
}

}  // namespace tandem::text

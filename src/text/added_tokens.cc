#include "text/added_tokens.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "text/unicode_table.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

// Here a word takes the joining controls along.
bool IsWordOrJoiner(char32_t c) { return IsWord(c) || c == 0x200C || c == 0x200D; }

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWordOrJoiner(ScanChar(text.data() + PreviousChar(text, begin)).value)) {
    return false;
  }
  return end == text.size() || !IsWordOrJoiner(ScanChar(text.data() + end).value);
}

// llama.cpp, whose order is longest first, knows ASCII's only.
bool IsSpace(char32_t c, bool ascii) { return (!ascii || c < 128) && IsWhiteSpace(c); }

size_t SpaceBegin(std::string_view text, size_t at, size_t least, bool ascii) {
  while (at > least) {
    const size_t previous = PreviousChar(text, at);
    if (!IsSpace(ScanChar(text.data() + previous).value, ascii)) break;
    at = previous;
  }
  return std::max(at, least);
}

size_t SpaceEnd(std::string_view text, size_t at, bool ascii) {
  while (at < text.size()) {
    const ScannedChar c = ScanChar(text.data() + at);
    if (!IsSpace(c.value, ascii)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

Result<AddedTokens> AddedTokens::Create(const TokenizerSpec& spec, bool normalized,
                                        const Normalizer& normalizer) {
  size_t bytes = 0;
  for (const AddedToken& added : spec.added) {
    bytes += 2 * spec.tokens[static_cast<size_t>(added.id)].size();
  }
  AddedTokens made(bytes, spec.longest_added_first);
  Normalizer::Buffers buffers;
  // Of equal texts the first wins, special ones before others: the trie keeps the last.
  for (const bool special : {false, true}) {
    for (size_t i = spec.added.size(); i > 0; --i) {
      const AddedToken& added = spec.added[i - 1];
      if (added.Is(AddedToken::kNormalized) != normalized) continue;
      if (added.Is(AddedToken::kSpecial) != special) continue;
      std::string_view text = spec.tokens[static_cast<size_t>(added.id)];
      if (normalized && !added.Is(AddedToken::kVerbatim)) {
        text = normalizer.Apply(text, true, buffers);
      }
      if (text.empty()) continue;
      if (!made.trie_.Add(text, static_cast<int32_t>(made.entries_.size()))) {
        return Err(Code::kTooLarge, "tokenizer added tokens: their texts are too long in all");
      }
      made.first_.set(static_cast<uint8_t>(text.front()));
      made.entries_.push_back({added.id, added.flags, text.size()});
    }
  }
  return made;
}

// The first token from each place on, the longest where several begin there.
std::vector<AddedTokens::Found> AddedTokens::FindLeftmost(std::string_view text) const {
  std::vector<Found> found;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    if (first_[static_cast<uint8_t>(text[at])]) {
      size_t entry = 0;
      trie_.ForEachPrefix(text.substr(at), [&](size_t bytes, int32_t index) {
        length = bytes;
        entry = static_cast<size_t>(index);
      });
      if (length > 0) found.push_back({at, at + length, entry});
    }
    at += std::max<size_t>(length, 1);
  }
  return found;
}

// All places of the longest token, then those of the next that are still free, and so on.
std::vector<AddedTokens::Found> AddedTokens::FindLongest(std::string_view text,
                                                         bool parse_special) const {
  std::vector<Found> all;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!first_[static_cast<uint8_t>(text[at])]) continue;
    trie_.ForEachPrefix(text.substr(at), [&](size_t bytes, int32_t index) {
      const auto entry = static_cast<size_t>(index);
      if (!parse_special && (entries_[entry].flags & AddedToken::kSpecial) != 0) return;
      all.push_back({at, at + bytes, entry});
    });
  }
  std::sort(all.begin(), all.end(), [this](const Found& a, const Found& b) {
    const size_t a_bytes = a.end - a.begin;
    const size_t b_bytes = b.end - b.begin;
    return std::tie(b_bytes, entries_[a.entry].id, a.begin) <
           std::tie(a_bytes, entries_[b.entry].id, b.begin);
  });
  // Taken tokens are at least as long as those that follow: what overlaps one of them has its first
  // or its last byte in it.
  std::vector<bool> covered(text.size());
  std::vector<Found> taken;
  for (const Found& candidate : all) {
    if (covered[candidate.begin] || covered[candidate.end - 1]) continue;
    for (size_t at = candidate.begin; at < candidate.end; ++at) covered[at] = true;
    taken.push_back(candidate);
  }
  std::sort(taken.begin(), taken.end(),
            [](const Found& a, const Found& b) { return a.begin < b.begin; });
  return taken;
}

void AddedTokens::Split(std::string_view text, bool parse_special, std::vector<Piece>& out) const {
  if (text.empty()) return;
  size_t done = 0;
  if (!entries_.empty()) {
    const std::vector<Found> found =
        longest_first_ ? FindLongest(text, parse_special) : FindLeftmost(text);
    for (const Found& match : found) {
      const Entry& entry = entries_[match.entry];
      size_t begin = match.begin;
      size_t end = match.end;
      if (!parse_special && (entry.flags & AddedToken::kSpecial) != 0) continue;
      if ((entry.flags & AddedToken::kSingleWord) != 0 && !StandsAlone(text, begin, end)) continue;
      if (begin < done) continue;  // white space that the token before took along
      if ((entry.flags & AddedToken::kLeftStrip) != 0) {
        begin = SpaceBegin(text, begin, done, longest_first_);
      }
      if ((entry.flags & AddedToken::kRightStrip) != 0) end = SpaceEnd(text, end, longest_first_);
      if (begin > done) out.push_back({done, begin, Piece::kText});
      out.push_back({begin, end, entry.id});
      done = end;
    }
  }
  if (done < text.size()) out.push_back({done, text.size(), Piece::kText});
}

}  // namespace tandem::text

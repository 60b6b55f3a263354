#include "text/special_tokens.h"

#include <algorithm>
#include <tuple>

namespace tandem::text {

void SpecialTokens::Add(std::string_view text, int32_t id, bool control) {
  if (text.empty()) return;
  starts_[static_cast<uint8_t>(text.front())] = true;
  entries_.push_back({std::string(text), id, control});
}

void SpecialTokens::Finish() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.text, a.id) < std::tie(b.text, b.id);
  });
}

std::optional<SpecialTokens::Match> SpecialTokens::Find(std::string_view text, size_t from,
                                                        bool parse_control) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<uint8_t>(text[at])]) continue;
    if (const auto match = LongestAt(text, at, parse_control)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted entries byte by byte to those that begin as the text does.
std::optional<SpecialTokens::Match> SpecialTokens::LongestAt(std::string_view text, size_t at,
                                                             bool parse_control) const {
  std::optional<Match> best;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (size_t depth = 0; at + depth < text.size() && low != high; ++depth) {
    if (high - low == 1) {  // the usual case: only one can still fit
      const bool fits = text.substr(at).starts_with(low->text) && (parse_control || !low->control);
      return fits ? Match{at, low->text.size(), low->id} : best;
    }
    const auto byte = static_cast<uint8_t>(text[at + depth]);
    const auto byte_of = [depth](const Entry& entry) {
      return depth < entry.text.size() ? static_cast<int>(static_cast<uint8_t>(entry.text[depth]))
                                       : -1;
    };
    low = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) < byte; });
    high = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) == byte; });
    // Entries that end here sort before the longer ones.
    for (auto it = low; it != high && it->text.size() == depth + 1; ++it) {
      if (it->control && !parse_control) continue;
      best = Match{at, depth + 1, it->id};
      break;
    }
  }
  return best;
}

}  // namespace tandem::text

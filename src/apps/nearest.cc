#include "apps/nearest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem::apps {

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows suffice: a swap looks two rows back.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({replaced, last[j] + 1, now[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

// What the word begins ("prefil" for "prefill", the shortest such name), else what it resembles as
// a whole, else what it is a part of ("ggregation" for "disaggregation-mode").
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLeastPart = 4;
  const size_t limit = std::max<size_t>(2, word.size() / 3);
  std::string_view best;
  std::pair<int, size_t> best_rank;  // lower is nearer
  for (const std::string_view candidate : candidates) {
    const bool long_enough = word.size() >= kLeastPart;
    std::pair<int, size_t> rank = {1, EditDistance(word, candidate)};
    if (long_enough && candidate.starts_with(word))
      rank = {0, candidate.size()};
    else if (rank.second > limit && long_enough && candidate.find(word) != std::string_view::npos)
      rank = {2, candidate.size()};
    else if (rank.second > limit)
      continue;
    if (best.empty() || rank < best_rank) {
      best_rank = rank;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tandem::apps

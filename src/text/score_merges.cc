#include "text/score_merges.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "text/utf8_scan.h"
#include "text/word_table.h"

namespace tandem::text {

Status AddScoreMerges(const std::vector<bool>& mergeable, TokenizerSpec& spec) {
  WordTable ids(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (mergeable[id] && !spec.tokens[id].empty()) {
      ids.Add(spec.tokens[id], static_cast<int32_t>(id));
    }
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (std::isnan(spec.scores[id])) {
      return Err(Code::kCorrupt, "tokenizer scores: that of token {} is no number", id);
    }
  }
  const size_t first = spec.merges.size();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!mergeable[id]) continue;
    const std::string_view token = spec.tokens[id];
    for (size_t at = 0; at < token.size();) {
      at += CharBytes(token[at]);
      if (at >= token.size()) break;
      const int32_t left = ids.Find(token.substr(0, at));
      const int32_t right = left < 0 ? -1 : ids.Find(token.substr(at));
      if (right < 0) continue;
      if (spec.merges.size() >= kMaxMerges) {
        return Err(Code::kTooLarge, "tokenizer tokens: more than {} ways to make one from two",
                   kMaxMerges);
      }
      spec.merges.push_back({left, right, static_cast<int32_t>(id)});
    }
  }
  const auto score = [&](const MergeRule& rule) {
    return spec.scores[static_cast<size_t>(rule.merged)];
  };
  std::sort(spec.merges.begin() + static_cast<std::ptrdiff_t>(first), spec.merges.end(),
            [&](const MergeRule& a, const MergeRule& b) {
              if (score(a) != score(b)) return score(a) > score(b);
              return std::tie(a.merged, a.left) < std::tie(b.merged, b.left);
            });
  return {};
}

}  // namespace tandem::text

#ifndef TANDEM_APPS_NEAREST_H_
#define TANDEM_APPS_NEAREST_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace tandem::apps {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that `word` was probably meant to be; "" if none is near.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_NEAREST_H_

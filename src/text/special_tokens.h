// Finds tokens that are written out in the text: control and user-defined ones.
#ifndef TANDEM_TEXT_SPECIAL_TOKENS_H_
#define TANDEM_TEXT_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::text {

class SpecialTokens {
 public:
  struct Match {
    size_t at;
    size_t bytes;
    int32_t id;
  };

  // A control token is only found where parse_control is asked for. Empty texts are passed over.
  void Add(std::string_view text, int32_t id, bool control);
  // Once, after the last Add.
  void Finish();

  // The first token at or after `from`, the longest where several begin there.
  std::optional<Match> Find(std::string_view text, size_t from, bool parse_control) const;

 private:
  struct Entry {
    std::string text;
    int32_t id;
    bool control;
  };

  std::optional<Match> LongestAt(std::string_view text, size_t at, bool parse_control) const;

  std::vector<Entry> entries_;  // sorted by text
  std::array<bool, 256> starts_{};
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_SPECIAL_TOKENS_H_

// Regular expressions as tokenizer files write them: the part of Oniguruma's Ruby syntax that finds
// matches, without captures and back references. Leftmost match, alternatives in order,
// backtracking.
//
// Supported: alternation; groups (?:) () (?<name>) (?>) with options i and m; look-ahead and
// look-behind; quantifiers greedy, lazy and possessive; classes with nesting, && and POSIX names;
// \p{category} and some scripts; \s \d \w \h \R and their opposites; ^ $ \A \z \Z \b \B. Anything
// else is refused by name.
#ifndef TANDEM_TEXT_REGEX_H_
#define TANDEM_TEXT_REGEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

struct RegexProgram;

// Immutable: any number of threads may use one at once.
class Regex {
 public:
  // kUnsupported or kInvalidArgument, with the place in the pattern. The program that a pattern
  // becomes is bounded (repeats are written out).
  static Result<Regex> Compile(std::string_view pattern);

  struct Match {
    size_t begin;
    size_t end;
  };

  // Appends all matches in valid UTF-8, none overlapping, as Oniguruma's search in a loop finds
  // them: an empty match never touches the match before. The work is bounded by a multiple of the
  // text's size: a pattern that backtracks without end finds no further match.
  void FindAll(std::string_view text, std::vector<Match>& out) const;

 private:
  explicit Regex(std::shared_ptr<const RegexProgram> program) : program_(std::move(program)) {}
  std::shared_ptr<const RegexProgram> program_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_REGEX_H_

// What a pattern is compiled to (regex_parser.cc) and run from (regex.cc).
#ifndef TANDEM_TEXT_REGEX_PROGRAM_H_
#define TANDEM_TEXT_REGEX_PROGRAM_H_

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/char_set.h"

namespace tandem::text {

inline constexpr uint32_t kUnboundedRepeat = 0xFFFFFFFF;

// Which bytes may come first; bit 256: the end of the text.
using FirstBytes = std::bitset<257>;

struct RegexNode {
  enum class Kind : uint8_t {
    kSet,        // one character of set `a`
    kSetLoop,    // min to max characters of set `a`
    kAlternate,  // one of the branches `branches[a]`, in order
    kLoopBegin,  // a general repeat's counterless loop: slot `a`, exit at `b`
    kLoopBack,   // back to the loop's head at `b` unless nothing was read since slot `a`
    kJump,       // to `b`
    kLook,       // body at the next node, ends with kAccept; goes on at `b`
    kAtomic,     // the same, for (?>...)
    kAssert,     // `a`: Assertion
    kAccept,
  };
  enum class Mode : uint8_t { kGreedy, kLazy, kPossessive };
  enum Assertion : uint32_t {
    kTextBegin,
    kTextEnd,
    kTextEndOrNewline,
    kLineBegin,
    kLineEnd,
    kWordEdge,
    kNoWordEdge
  };

  Kind kind = Kind::kAccept;
  Mode mode = Mode::kGreedy;
  bool negative = false;  // kLook
  bool behind = false;    // kLook: min to max characters back
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t min = 0;
  uint32_t max = 0;
};

struct RegexBranch {
  uint32_t start = 0;
  FirstBytes first;
};

struct RegexProgram {
  std::vector<RegexNode> nodes;  // starts at 0
  std::vector<std::vector<RegexBranch>> branches;
  std::vector<CharSet> sets;
  uint32_t slots = 0;
  FirstBytes first;
};

Result<RegexProgram> CompileRegex(std::string_view pattern);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_REGEX_PROGRAM_H_

// A pattern as a tree, between parsing (regex_parser.cc) and code (regex_compile.cc).
#ifndef TANDEM_TEXT_REGEX_AST_H_
#define TANDEM_TEXT_REGEX_AST_H_

#include <string_view>
#include <vector>

#include "text/regex_program.h"

namespace tandem::text {

struct RegexAst {
  enum class Kind : uint8_t { kSequence, kSet, kAlternate, kRepeat, kLook, kAtomic, kAssert };

  Kind kind = Kind::kSequence;
  CharRanges set;
  std::vector<RegexAst> children;
  uint32_t min = 0;
  uint32_t max = 0;
  RegexNode::Mode mode = RegexNode::Mode::kGreedy;
  bool negative = false;
  bool behind = false;
  RegexNode::Assertion assertion = RegexNode::kTextBegin;
};

Result<RegexAst> ParseRegex(std::string_view pattern);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_REGEX_AST_H_

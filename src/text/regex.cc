#include "text/regex.h"

#include <algorithm>
#include <string>

#include "text/regex_program.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

using Kind = RegexNode::Kind;
using Mode = RegexNode::Mode;

// Word characters as CharRanges::Word has it.
bool IsRegexWord(char32_t c) {
  return IsWord(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
}

// Backtracking over one text. The budget is shared by all attempts.
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text)
      : program_(program), text_(text), budget_(20000 + 256 * uint64_t{text.size()}) {
    slots_.resize(program.slots);
  }

  bool exhausted() const { return budget_ == 0; }

  // Runs from a node; the end of the match, or npos.
  size_t Run(uint32_t node, size_t at) {
    const size_t base = stack_.size();
    while (true) {
      if (Step(node, at)) {
        if (program_.nodes[node].kind != Kind::kAccept) continue;
        stack_.resize(base);
        return at;
      }
      if (!Retry(base, node, at)) return kNone;
    }
  }

  static constexpr size_t kNone = std::string_view::npos;

 private:
  struct Frame {
    enum class Type : uint8_t { kBranch, kGiveBack, kTakeMore };
    Type type;
    uint32_t node;  // kBranch: the alternate; else where to go on
    uint32_t next;  // kBranch: the branch; kTakeMore: how many more
    size_t at;
    size_t least;  // kGiveBack: not before here
  };

  bool Spend(uint64_t steps) {
    if (budget_ > steps) {
      budget_ -= steps;
      return true;
    }
    budget_ = 0;
    return false;
  }

  size_t ByteAt(size_t at) const {
    return at < text_.size() ? static_cast<uint8_t>(text_[at]) : size_t{256};
  }

  // Bytes of the character at `at` if it is in the set, else 0.
  uint32_t InSet(const CharSet& set, size_t at) const {
    if (at >= text_.size()) return 0;
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return set.HasAscii(byte) ? 1 : 0;
    const ScannedChar c = ScanChar(text_.data() + at);
    return set.Has(c.value) ? c.bytes : 0;
  }

  // One node. False: it does not match here. An accepting node stays as it is.
  bool Step(uint32_t& node, size_t& at) {
    if (!Spend(1)) return false;
    const RegexNode& n = program_.nodes[node];
    switch (n.kind) {
      case Kind::kSet: {
        const uint32_t bytes = InSet(program_.sets[n.a], at);
        at += bytes;
        ++node;
        return bytes > 0;
      }
      case Kind::kSetLoop:
        return SetLoop(n, node, at);
      case Kind::kAlternate:
        return Branch(node, 0, at);
      case Kind::kLoopBegin:
        slots_[n.a] = at;
        ++node;
        return true;
      case Kind::kLoopBack:
        node = slots_[n.a] == at ? node + 1 : n.b;
        return true;
      case Kind::kJump:
        node = n.b;
        return true;
      case Kind::kLook: {
        const bool holds = Look(n, node + 1, at) != n.negative;
        node = n.b;
        return holds && budget_ > 0;
      }
      case Kind::kAtomic: {
        const size_t end = Run(node + 1, at);
        node = n.b;
        if (end == kNone) return false;
        at = end;
        return true;
      }
      case Kind::kAssert: {
        ++node;
        return Holds(static_cast<RegexNode::Assertion>(n.a), at);
      }
      case Kind::kAccept:
        return true;
    }
    return false;
  }

  bool SetLoop(const RegexNode& n, uint32_t& node, size_t& at) {
    const CharSet& set = program_.sets[n.a];
    const uint32_t most = n.mode == Mode::kLazy ? n.min : n.max;
    const size_t start = at;
    size_t least = at;
    uint32_t count = 0;
    while (count < most) {
      const uint32_t bytes = InSet(set, at);
      if (bytes == 0) break;
      at += bytes;
      if (++count == n.min) least = at;
    }
    if (!Spend(at - start) || count < n.min) return false;
    ++node;
    if (n.mode == Mode::kGreedy && at > least) {
      stack_.push_back({Frame::Type::kGiveBack, node, 0, at, least});
    } else if (n.mode == Mode::kLazy && n.max > n.min) {
      stack_.push_back({Frame::Type::kTakeMore, node, n.max - n.min, at, 0});
    }
    return true;
  }

  // The first branch from `from` on that the next byte allows.
  bool Branch(uint32_t& node, size_t from, size_t at) {
    const std::vector<RegexBranch>& branches = program_.branches[program_.nodes[node].a];
    const size_t byte = ByteAt(at);
    const auto viable = [&](size_t i) {
      while (i < branches.size() && !branches[i].first[byte]) ++i;
      return i;
    };
    const size_t taken = viable(from);
    if (taken == branches.size()) return false;
    const size_t other = viable(taken + 1);
    if (other < branches.size()) {
      stack_.push_back({Frame::Type::kBranch, node, static_cast<uint32_t>(other), at, 0});
    }
    node = branches[taken].start;
    return true;
  }

  bool Retry(size_t base, uint32_t& node, size_t& at) {
    while (stack_.size() > base && budget_ > 0) {
      Frame& frame = stack_.back();
      node = frame.node;
      at = frame.at;
      switch (frame.type) {
        case Frame::Type::kBranch: {
          const size_t next = frame.next;
          stack_.pop_back();
          if (Branch(node, next, at)) return true;
          break;
        }
        case Frame::Type::kGiveBack:
          at = PreviousChar(text_, at);
          frame.at = at;
          if (at <= frame.least) stack_.pop_back();
          return true;
        case Frame::Type::kTakeMore: {
          const CharSet& set = program_.sets[program_.nodes[node - 1].a];
          const uint32_t bytes = InSet(set, at);
          if (bytes == 0) {
            stack_.pop_back();
            break;
          }
          at += bytes;
          frame.at = at;
          if (frame.next != kUnboundedRepeat && --frame.next == 0) stack_.pop_back();
          return true;
        }
      }
    }
    stack_.resize(base);
    return false;
  }

  bool Look(const RegexNode& n, uint32_t body, size_t at) {
    if (!n.behind) return Run(body, at) != kNone;
    size_t start = at;
    for (uint32_t back = 0; back <= n.max; ++back) {
      if (back >= n.min && RunsTo(body, start, at)) return true;
      if (start == 0) return false;
      start = PreviousChar(text_, start);
    }
    return false;
  }

  // Whether the body matches exactly [start, end).
  bool RunsTo(uint32_t body, size_t start, size_t end) {
    const std::string_view whole = text_;
    text_ = text_.substr(0, end);
    const bool found = Run(body, start) == end;
    text_ = whole;
    return found;
  }

  bool Holds(RegexNode::Assertion assertion, size_t at) const {
    const size_t size = text_.size();
    switch (assertion) {
      case RegexNode::kTextBegin:
        return at == 0;
      case RegexNode::kTextEnd:
        return at == size;
      case RegexNode::kTextEndOrNewline:
        return at == size || (at + 1 == size && text_[at] == '\n');
      case RegexNode::kLineBegin:
        return at == 0 || (text_[at - 1] == '\n' && at < size);
      case RegexNode::kLineEnd:
        return at == size || text_[at] == '\n';
      case RegexNode::kWordEdge:
      case RegexNode::kNoWordEdge: {
        const bool before =
            at > 0 && IsRegexWord(ScanChar(text_.data() + PreviousChar(text_, at)).value);
        const bool after = at < size && IsRegexWord(ScanChar(text_.data() + at).value);
        return (before != after) == (assertion == RegexNode::kWordEdge);
      }
    }
    return false;
  }

  const RegexProgram& program_;
  std::string_view text_;
  uint64_t budget_;
  std::vector<Frame> stack_;
  std::vector<size_t> slots_;
};

}  // namespace

Result<Regex> Regex::Compile(std::string_view pattern) {
  TRY_ASSIGN(RegexProgram program, CompileRegex(pattern));
  return Regex(std::make_shared<const RegexProgram>(std::move(program)));
}

void Regex::FindAll(std::string_view text, std::vector<Match>& out) const {
  Matcher matcher(*program_, text);
  size_t last_end = std::string_view::npos;
  for (size_t at = 0; at <= text.size() && !matcher.exhausted();) {
    const size_t byte = at < text.size() ? static_cast<uint8_t>(text[at]) : size_t{256};
    size_t end = Matcher::kNone;
    if (program_->first[byte]) end = matcher.Run(0, at);
    const bool empty = end == at;
    if (end != Matcher::kNone && !(empty && last_end == at)) {
      out.push_back({at, end});
      last_end = end;
    }
    if (end != Matcher::kNone && !empty) {
      at = end;
    } else {
      at += at < text.size() ? CharBytes(text[at]) : 1;
    }
  }
}

}  // namespace tandem::text

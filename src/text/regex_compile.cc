#include <algorithm>

#include "text/regex_ast.h"

namespace tandem::text {
namespace {

constexpr size_t kMaxNodes = 20000;
constexpr size_t kMaxSets = 400;
constexpr uint32_t kMaxLookBehind = 255;

using Kind = RegexAst::Kind;

uint8_t LeadByte(char32_t c) {
  if (c < 0x80) return static_cast<uint8_t>(c);
  if (c < 0x800) return static_cast<uint8_t>(0xC0 | c >> 6);
  if (c < 0x10000) return static_cast<uint8_t>(0xE0 | c >> 12);
  return static_cast<uint8_t>(0xF0 | c >> 18);
}

struct First {
  FirstBytes bytes;
  bool nullable = false;
};

First FirstOf(const RegexAst& ast);

First FirstOfSequence(const std::vector<RegexAst>& children) {
  First out{.bytes = {}, .nullable = true};
  for (const RegexAst& child : children) {
    const First first = FirstOf(child);
    out.bytes |= first.bytes;
    if (!first.nullable) {
      out.nullable = false;
      return out;
    }
  }
  return out;
}

First FirstOf(const RegexAst& ast) {
  First out;
  switch (ast.kind) {
    case Kind::kSequence:
    case Kind::kAtomic:
      return FirstOfSequence(ast.children);
    case Kind::kSet:
      for (const auto& [low, high] : ast.set.ranges()) {
        for (size_t byte = LeadByte(low); byte <= LeadByte(high); ++byte) out.bytes.set(byte);
      }
      return out;
    case Kind::kAlternate:
      for (const RegexAst& child : ast.children) {
        const First first = FirstOf(child);
        out.bytes |= first.bytes;
        out.nullable |= first.nullable;
      }
      return out;
    case Kind::kRepeat:
      if (ast.max == 0) return {.bytes = {}, .nullable = true};
      out = FirstOf(ast.children.front());
      out.nullable |= ast.min == 0;
      return out;
    case Kind::kLook:
    case Kind::kAssert:
      out.nullable = true;
      return out;
  }
  return out;
}

FirstBytes FirstOrAll(const RegexAst& ast) {
  const First first = FirstOf(ast);
  return first.nullable ? FirstBytes().set() : first.bytes;
}

// Least and most characters that a look-behind's body reads.
struct Lengths {
  uint64_t min = 0;
  uint64_t max = 0;
};

Lengths LengthsOf(const RegexAst& ast) {
  Lengths out;
  switch (ast.kind) {
    case Kind::kSet:
      return {1, 1};
    case Kind::kSequence:
    case Kind::kAtomic:
      for (const RegexAst& child : ast.children) {
        const Lengths each = LengthsOf(child);
        out.min += each.min;
        out.max += each.max;
      }
      break;
    case Kind::kAlternate:
      out.min = kMaxLookBehind + 1;
      for (const RegexAst& child : ast.children) {
        const Lengths each = LengthsOf(child);
        out.min = std::min(out.min, each.min);
        out.max = std::max(out.max, each.max);
      }
      break;
    case Kind::kRepeat: {
      const Lengths each = LengthsOf(ast.children.front());
      out.min = each.min * ast.min;
      out.max = each.max * ast.max;
      break;
    }
    case Kind::kLook:
    case Kind::kAssert:
      break;
  }
  // Sums stay far from overflow.
  out.min = std::min<uint64_t>(out.min, kMaxLookBehind + 1);
  out.max = std::min<uint64_t>(out.max, kMaxLookBehind + 1);
  return out;
}

class Compiler {
 public:
  Result<RegexProgram> Compile(const RegexAst& ast) {
    TRY(Emit(ast));
    Add({});
    program_.first = FirstOrAll(ast);
    return std::move(program_);
  }

 private:
  uint32_t Here() const { return static_cast<uint32_t>(program_.nodes.size()); }
  uint32_t Add(RegexNode node) {
    program_.nodes.push_back(node);
    return Here() - 1;
  }

  Status Emit(const RegexAst& ast) {
    if (program_.nodes.size() > kMaxNodes) {
      return Err(Code::kUnsupported, "regular expression: more than {} steps when written out",
                 kMaxNodes);
    }
    switch (ast.kind) {
      case Kind::kSequence:
        for (const RegexAst& child : ast.children) TRY(Emit(child));
        return {};
      case Kind::kSet: {
        TRY_ASSIGN(const uint32_t set, SetIndex(ast.set));
        Add({.kind = RegexNode::Kind::kSet, .a = set});
        return {};
      }
      case Kind::kAlternate: {
        std::vector<const RegexAst*> branches;
        for (const RegexAst& child : ast.children) branches.push_back(&child);
        return EmitBranches(branches);
      }
      case Kind::kRepeat:
        return EmitRepeat(ast);
      case Kind::kLook:
      case Kind::kAtomic:
        return EmitBody(ast);
      case Kind::kAssert:
        Add({.kind = RegexNode::Kind::kAssert, .a = ast.assertion});
        return {};
    }
    return {};
  }

  Result<uint32_t> SetIndex(const CharRanges& set) {
    for (size_t i = 0; i < set_ranges_.size(); ++i) {
      if (set_ranges_[i].ranges() == set.ranges()) return static_cast<uint32_t>(i);
    }
    if (set_ranges_.size() >= kMaxSets) {
      return Err(Code::kUnsupported, "regular expression: more than {} classes", kMaxSets);
    }
    set_ranges_.push_back(set);
    program_.sets.emplace_back(set);
    return static_cast<uint32_t>(set_ranges_.size() - 1);
  }

  // A null branch is the empty one.
  Status EmitBranches(const std::vector<const RegexAst*>& branches) {
    const auto table = static_cast<uint32_t>(program_.branches.size());
    program_.branches.emplace_back();
    Add({.kind = RegexNode::Kind::kAlternate, .a = table});
    std::vector<uint32_t> jumps;
    for (const RegexAst* branch : branches) {
      program_.branches[table].push_back(
          {Here(), branch == nullptr ? FirstBytes().set() : FirstOrAll(*branch)});
      if (branch != nullptr) TRY(Emit(*branch));
      jumps.push_back(Add({.kind = RegexNode::Kind::kJump}));
    }
    for (const uint32_t jump : jumps) program_.nodes[jump].b = Here();
    return {};
  }

  Status EmitRepeat(const RegexAst& ast) {
    const RegexAst& body = ast.children.front();
    if (body.kind == Kind::kSet) {
      TRY_ASSIGN(const uint32_t set, SetIndex(body.set));
      Add({.kind = RegexNode::Kind::kSetLoop,
           .mode = ast.mode,
           .a = set,
           .min = ast.min,
           .max = ast.max});
      return {};
    }
    if (ast.mode == RegexNode::Mode::kPossessive) {
      RegexAst greedy = ast;
      greedy.mode = RegexNode::Mode::kGreedy;
      RegexAst atomic;
      atomic.kind = Kind::kAtomic;
      atomic.children.push_back(std::move(greedy));
      return EmitBody(atomic);
    }
    for (uint32_t i = 0; i < ast.min; ++i) TRY(Emit(body));
    if (ast.max == kUnboundedRepeat) return EmitLoop(body, ast.mode);
    return EmitOptional(body, ast.max - ast.min, ast.mode);
  }

  // body{0,count}: (body(body(...)?)?)?, as a chain of exits to one end.
  Status EmitOptional(const RegexAst& body, uint32_t count, RegexNode::Mode mode) {
    std::vector<uint32_t> tables;
    for (uint32_t i = 0; i < count; ++i) {
      tables.push_back(static_cast<uint32_t>(program_.branches.size()));
      program_.branches.emplace_back();
      Add({.kind = RegexNode::Kind::kAlternate, .a = tables.back()});
      program_.branches[tables.back()].push_back({Here(), FirstOrAll(body)});
      TRY(Emit(body));
    }
    for (const uint32_t table : tables) AddExit(table, mode);
    return {};
  }

  void AddExit(uint32_t table, RegexNode::Mode mode) {
    std::vector<RegexBranch>& branches = program_.branches[table];
    branches.push_back({Here(), FirstBytes().set()});
    if (mode == RegexNode::Mode::kLazy) std::swap(branches[0], branches[1]);
  }

  Status EmitLoop(const RegexAst& body, RegexNode::Mode mode) {
    const auto table = static_cast<uint32_t>(program_.branches.size());
    program_.branches.emplace_back();
    const uint32_t head = Add({.kind = RegexNode::Kind::kAlternate, .a = table});
    program_.branches[table].push_back({Here(), FirstOrAll(body)});
    const uint32_t slot = program_.slots++;
    Add({.kind = RegexNode::Kind::kLoopBegin, .a = slot});
    TRY(Emit(body));
    Add({.kind = RegexNode::Kind::kLoopBack, .a = slot, .b = head});
    AddExit(table, mode);
    return {};
  }

  Status EmitBody(const RegexAst& ast) {
    RegexNode node;
    node.kind = ast.kind == Kind::kLook ? RegexNode::Kind::kLook : RegexNode::Kind::kAtomic;
    node.negative = ast.negative;
    node.behind = ast.behind;
    if (ast.behind) {
      const Lengths lengths = LengthsOf(ast.children.front());
      if (lengths.max > kMaxLookBehind) {
        return Err(Code::kUnsupported,
                   "regular expression: a look-behind of more than {} characters", kMaxLookBehind);
      }
      node.min = static_cast<uint32_t>(lengths.min);
      node.max = static_cast<uint32_t>(lengths.max);
    }
    const uint32_t at = Add(node);
    for (const RegexAst& child : ast.children) TRY(Emit(child));
    Add({});
    program_.nodes[at].b = Here();
    return {};
  }

  RegexProgram program_;
  std::vector<CharRanges> set_ranges_;
};

}  // namespace

Result<RegexProgram> CompileRegex(std::string_view pattern) {
  TRY_ASSIGN(const RegexAst ast, ParseRegex(pattern));
  return Compiler().Compile(ast);
}

}  // namespace tandem::text

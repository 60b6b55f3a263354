#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/peer_unicode.h"
#include "text/unicode_table.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

using Kind = PreTokenizerKind;

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Word characters here are those of another library: with joiners, without odd digits.
constexpr std::string_view kWordPattern =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
    R"(\x{1F170}-\x{1F189}\x{200C}\x{200D}]+|[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}\x{200C}\x{200D}\s]+)";

bool IsPunctuation(char32_t c) {
  if (c < 128) return IsIn(c, kPunctuation | kSymbols);
  return IsIn(c, kPunctuation) != PunctuationDiffers(c);
}

// Every character that satisfies `test` is a match of its own.
template <class Test>
void MatchChars(std::string_view word, Test test, std::vector<Regex::Match>& out) {
  for (size_t at = 0; at < word.size();) {
    const ScannedChar c = ScanChar(word.data() + at);
    if (test(c.value)) out.push_back({at, at + c.bytes});
    at += c.bytes;
  }
}

void MatchText(std::string_view word, std::string_view what, std::vector<Regex::Match>& out) {
  if (what.empty()) return;
  for (size_t at = word.find(what); at != std::string_view::npos;
       at = word.find(what, at + what.size())) {
    out.push_back({at, at + what.size()});
  }
}

}  // namespace

struct PreTokenizer::Step {
  PipelineStep<Kind> data;
  std::optional<Regex> regex;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(const std::vector<PipelineStep<Kind>>& steps) {
  std::vector<Step> made;
  for (const PipelineStep<Kind>& data : steps) {
    Step step{.data = data, .regex = std::nullopt};
    const bool splits = data.kind == Kind::kSplitText || data.kind == Kind::kSplitRegex ||
                        data.kind == Kind::kPunctuation;
    if (splits) {
      if (data.number > static_cast<uint32_t>(SplitBehavior::kContiguous)) {
        return Err(Code::kCorrupt, "tokenizer pre-tokenizer: split behaviour {} is unknown",
                   data.number);
      }
      step.behavior = static_cast<SplitBehavior>(data.number);
      step.invert = data.kind != Kind::kPunctuation && (data.flags & kSplitInvert) != 0;
    }
    std::string_view pattern;
    if (data.kind == Kind::kSplitRegex) pattern = data.text;
    if (data.kind == Kind::kByteLevel && (data.flags & kByteLevelRegex) != 0) {
      pattern = kGpt2Pattern;
    }
    if (data.kind == Kind::kWhitespace) {
      pattern = kWordPattern;
      step.behavior = SplitBehavior::kRemoved;
      step.invert = true;
    }
    if (data.kind == Kind::kWhitespaceSplit) step.behavior = SplitBehavior::kRemoved;
    if (data.kind == Kind::kDigits && (data.flags & 1) == 0) {
      step.behavior = SplitBehavior::kContiguous;
    }
    if (!pattern.empty()) {
      TRY_ASSIGN(step.regex, Regex::Compile(pattern));
    }
    made.push_back(std::move(step));
  }
  return PreTokenizer(std::move(made));
}

void PreTokenizer::Split(std::string_view text, bool at_start, Words& words) const {
  words.text = text;
  words.ranges.clear();
  if (text.empty()) return;
  words.ranges.push_back({0, static_cast<uint32_t>(text.size())});
  for (const Step& step : steps_) Apply(step, at_start, words);
}

void PreTokenizer::Apply(const Step& step, bool at_start, Words& words) {
  switch (step.data.kind) {
    case Kind::kByteLevel:
      return ByteLevel(step, words);
    case Kind::kMetaspace:
      return Metaspace(step, at_start, words);
    case Kind::kFixedLength:
      return FixedLength(step, words);
    case Kind::kBert: {
      Step spaces{.data = step.data, .regex = std::nullopt};
      spaces.data.kind = Kind::kWhitespaceSplit;
      spaces.behavior = SplitBehavior::kRemoved;
      SplitEach(spaces, words);
      Step marks{.data = step.data, .regex = std::nullopt};
      marks.data.kind = Kind::kPunctuation;
      return SplitEach(marks, words);
    }
    default:
      return SplitEach(step, words);
  }
}

void PreTokenizer::SplitEach(const Step& step, Words& words) {
  words.next_.clear();
  for (const Words::Range range : words.ranges) {
    const std::string_view word = words.text.substr(range.begin, range.end - range.begin);
    FindMatches(step, word, words);
    AppendPieces(step.behavior, step.invert, word, range.begin, words);
  }
  std::swap(words.ranges, words.next_);
}

void PreTokenizer::FindMatches(const Step& step, std::string_view word, Words& words) {
  std::vector<Regex::Match>& out = words.matches_;
  out.clear();
  switch (step.data.kind) {
    case Kind::kSplitText:
      return MatchText(word, step.data.text, out);
    case Kind::kWhitespaceSplit:
      return MatchChars(word, IsWhiteSpace, out);
    case Kind::kPunctuation:
      return MatchChars(word, IsPunctuation, out);
    case Kind::kDigits:
      return MatchChars(word, [](char32_t c) { return IsIn(c, kNumbers); }, out);
    default:
      return step.regex->FindAll(word, out);
  }
}

// Cuts the word at its matches; which pieces stay and which join is the behaviour's.
void PreTokenizer::AppendPieces(SplitBehavior behavior, bool invert, std::string_view word,
                                uint32_t offset, Words& words) {
  std::vector<Words::Range>& out = words.next_;
  const size_t first = out.size();
  bool previous_match = false;
  const auto piece = [&](size_t begin, size_t end, bool match) {
    if (begin == end) return;
    const Words::Range range{offset + static_cast<uint32_t>(begin),
                             offset + static_cast<uint32_t>(end)};
    const bool more = out.size() > first;
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        if (match) return;
        break;
      case SplitBehavior::kContiguous:
        join = more && match == previous_match;
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = more && match && !previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = more && !match && previous_match;
        break;
    }
    previous_match = match;
    if (join) {
      out.back().end = range.end;
    } else {
      out.push_back(range);
    }
  };
  size_t done = 0;
  for (const Regex::Match& match : words.matches_) {
    piece(done, match.begin, invert);
    piece(match.begin, match.end, !invert);
    done = match.end;
  }
  piece(done, word.size(), invert);
}

void PreTokenizer::ByteLevel(const Step& step, Words& words) {
  const uint32_t flags = step.data.flags;
  if ((flags & kByteLevelPrefixSpace) != 0) {
    words.spare_.clear();
    for (Words::Range& range : words.ranges) {
      const auto begin = static_cast<uint32_t>(words.spare_.size());
      const std::string_view word = words.text.substr(range.begin, range.end - range.begin);
      if (!word.starts_with(' ')) words.spare_.push_back(' ');
      words.spare_.append(word);
      range = {begin, static_cast<uint32_t>(words.spare_.size())};
    }
    std::swap(words.buffer_, words.spare_);
    words.text = words.buffer_;
  }
  if (step.regex) SplitEach(step, words);
  if ((flags & kByteLevelMap) == 0) return;
  words.spare_.clear();
  for (Words::Range& range : words.ranges) {
    const auto begin = static_cast<uint32_t>(words.spare_.size());
    AppendSymbolsOfBytes(words.text.substr(range.begin, range.end - range.begin), words.spare_);
    range = {begin, static_cast<uint32_t>(words.spare_.size())};
  }
  std::swap(words.buffer_, words.spare_);
  words.text = words.buffer_;
}

void PreTokenizer::Metaspace(const Step& step, bool at_start, Words& words) {
  const std::string& mark = step.data.text;
  const uint32_t flags = step.data.flags;
  std::string& out = words.spare_;
  out.clear();
  words.next_.clear();
  for (const Words::Range range : words.ranges) {
    const auto begin = static_cast<uint32_t>(out.size());
    const std::string_view word = words.text.substr(range.begin, range.end - range.begin);
    const bool prepend = (flags & kMetaspaceAlways) != 0 ||
                         ((flags & kMetaspaceFirst) != 0 && at_start && range.begin == 0);
    if (prepend && !word.starts_with(' ') && !word.starts_with(mark)) out.append(mark);
    for (const char c : word) {
      if (c == ' ') {
        out.append(mark);
      } else {
        out.push_back(c);
      }
    }
    words.next_.push_back({begin, static_cast<uint32_t>(out.size())});
  }
  std::swap(words.buffer_, out);
  words.text = words.buffer_;
  std::swap(words.ranges, words.next_);
  if ((flags & kMetaspaceSplit) == 0) return;
  Step split{.data = step.data, .regex = std::nullopt, .behavior = SplitBehavior::kMergedWithNext};
  split.data.kind = Kind::kSplitText;
  SplitEach(split, words);
}

void PreTokenizer::FixedLength(const Step& step, Words& words) {
  const uint32_t length = std::max<uint32_t>(step.data.number, 1);
  words.next_.clear();
  for (const Words::Range range : words.ranges) {
    uint32_t begin = range.begin;
    uint32_t count = 0;
    for (uint32_t at = range.begin; at < range.end;) {
      at += CharBytes(words.text[at]);
      if (++count < length && at < range.end) continue;
      words.next_.push_back({begin, at});
      begin = at;
      count = 0;
    }
  }
  std::swap(words.ranges, words.next_);
}

}  // namespace tandem::text

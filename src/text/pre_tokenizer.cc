#include "text/pre_tokenizer.h"

#include "text/char_class.h"

namespace tandem::text {
namespace {

// Reads valid UTF-8 without checking it again.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  uint8_t Byte(size_t at) const { return static_cast<uint8_t>(text_[at]); }
  bool Is(size_t at, char c) const { return at < text_.size() && text_[at] == c; }

  struct Char {
    CharClass cls;
    uint32_t bytes;
  };
  Char At(size_t at) const {
    const uint8_t lead = Byte(at);
    if (lead < 0x80) return {internal::kAsciiClasses[lead], 1};
    return Wide(at);
  }

  // End of the run of characters from `at` on whose class satisfies `in`.
  template <class In>
  size_t RunEnd(size_t at, In in) const {
    while (at < size()) {
      const Char c = At(at);
      if (!in(c.cls)) break;
      at += c.bytes;
    }
    return at;
  }

 private:
  Char Wide(size_t at) const {
    const uint8_t lead = Byte(at);
    const auto low = [&](size_t i) { return char32_t{Byte(at + i)} & 0x3F; };
    if (lead < 0xE0) return {ClassOfWide((lead & 0x1FU) << 6 | low(1)), 2};
    if (lead < 0xF0) return {ClassOfWide((lead & 0xFU) << 12 | low(1) << 6 | low(2)), 3};
    return {ClassOfWide((lead & 7U) << 18 | low(1) << 12 | low(2) << 6 | low(3)), 4};
  }

  std::string_view text_;
};

constexpr bool IsLetter(CharClass c) { return c == CharClass::kLetter; }
constexpr bool IsNumber(CharClass c) { return c == CharClass::kNumber; }
constexpr bool IsSpace(CharClass c) { return c == CharClass::kSpace; }
// [^\s\p{L}\p{N}]
constexpr bool IsMark(CharClass c) { return !IsLetter(c) && !IsNumber(c) && !IsSpace(c); }

// Length of 's 't 're 've 'm 'll 'd at `at`, which is an apostrophe; 0 if it is none of them.
size_t ContractionLength(const Scanner& scan, size_t at, bool any_case) {
  const auto letter = [&](size_t i) -> char {
    if (at + i >= scan.size()) return 0;
    const char c = static_cast<char>(scan.Byte(at + i));
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = letter(2);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  // Without regard to case, s is also U+017F, the long s.
  if (any_case && scan.size() - at >= 3 && scan.Byte(at + 1) == 0xC5 && scan.Byte(at + 2) == 0xBF) {
    return 3;
  }
  return 0;
}

// \s+(?!\S)|\s+ for the run of white space [at, end): where something other follows, the last
// character of a longer run is left to the next word.
size_t SpaceEnd(const Scanner& scan, size_t at, size_t end, bool followed) {
  if (!followed) return end;
  size_t last = end - 1;
  while ((scan.Byte(last) & 0xC0) == 0x80) --last;
  return last > at ? last : end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// With kDigitsAlone a number character is a word of its own and the text ends before it.
template <bool kDigitsAlone>
size_t Gpt2End(const Scanner& scan, size_t at) {
  const Scanner::Char first = scan.At(at);
  if (kDigitsAlone && IsNumber(first.cls)) return at + first.bytes;
  if (scan.Byte(at) == '\'') {
    if (const size_t length = ContractionLength(scan, at, false); length > 0) return at + length;
  }
  size_t body = at;
  CharClass cls = first.cls;
  if (scan.Byte(at) == ' ' && at + 1 < scan.size()) {
    const Scanner::Char next = scan.At(at + 1);
    const bool attaches = !IsSpace(next.cls) && !(kDigitsAlone && IsNumber(next.cls));
    if (attaches) {
      body = at + 1;
      cls = next.cls;
    }
  }
  if (IsLetter(cls)) return scan.RunEnd(body, IsLetter);
  if (IsNumber(cls)) return scan.RunEnd(body, IsNumber);
  if (!IsSpace(cls)) return scan.RunEnd(body, IsMark);
  const size_t end = scan.RunEnd(at, IsSpace);
  const bool followed = end < scan.size() && !(kDigitsAlone && IsNumber(scan.At(end).cls));
  return SpaceEnd(scan, at, end, followed);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,kDigits}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int kDigits>
size_t Llama3End(const Scanner& scan, size_t at) {
  const Scanner::Char first = scan.At(at);
  const uint8_t byte = scan.Byte(at);
  if (byte == '\'') {
    if (const size_t length = ContractionLength(scan, at, true); length > 0) return at + length;
  }
  const size_t second = at + first.bytes;
  if (IsLetter(first.cls)) return scan.RunEnd(second, IsLetter);
  if (IsNumber(first.cls)) {
    size_t end = second;
    for (int i = 1; i < kDigits && end < scan.size(); ++i) {
      const Scanner::Char c = scan.At(end);
      if (!IsNumber(c.cls)) break;
      end += c.bytes;
    }
    return end;
  }
  const bool line_end = byte == '\r' || byte == '\n';
  if (!line_end && second < scan.size() && IsLetter(scan.At(second).cls)) {
    return scan.RunEnd(second, IsLetter);
  }
  const bool space_then_mark = byte == ' ' && second < scan.size() && IsMark(scan.At(second).cls);
  if (IsMark(first.cls) || space_then_mark) {
    size_t end = scan.RunEnd(second, IsMark);
    while (scan.Is(end, '\r') || scan.Is(end, '\n')) ++end;
    return end;
  }
  const size_t end = scan.RunEnd(at, IsSpace);
  for (size_t i = end; i > at; --i) {
    if (scan.Is(i - 1, '\r') || scan.Is(i - 1, '\n')) return i;
  }
  return SpaceEnd(scan, at, end, end < scan.size());
}

using EndOf = size_t (*)(const Scanner&, size_t);

template <EndOf kEnd>
void SplitBy(std::string_view text, std::vector<uint32_t>& lengths) {
  const Scanner scan(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = kEnd(scan, at);
    lengths.push_back(static_cast<uint32_t>(end - at));
    at = end;
  }
}

// \p{N}+ apart from the rest, then [0-9][0-9][0-9] apart from the rest.
void SplitNumbers(std::string_view word, std::vector<uint32_t>& lengths) {
  const Scanner scan(word);
  for (size_t at = 0; at < word.size();) {
    const bool number = IsNumber(scan.At(at).cls);
    const size_t end = scan.RunEnd(at, [number](CharClass c) { return IsNumber(c) == number; });
    size_t rest = at;
    int digits = 0;
    for (size_t i = at; i < end; ++i) {
      digits = number && word[i] >= '0' && word[i] <= '9' ? digits + 1 : 0;
      if (digits < 3) continue;
      if (i - 2 > rest) lengths.push_back(static_cast<uint32_t>(i - 2 - rest));
      lengths.push_back(3);
      rest = i + 1;
      digits = 0;
    }
    if (end > rest) lengths.push_back(static_cast<uint32_t>(end - rest));
    at = end;
  }
}

// [\p{P}$+<=>^~|]
bool IsDefaultPunctuation(const Scanner& scan, size_t at, CharClass cls) {
  static constexpr std::string_view kSymbols = "$+<=>^~|";
  return cls == CharClass::kPunctuation ||
         kSymbols.find(static_cast<char>(scan.Byte(at))) != std::string_view::npos;
}

void SplitDefault(std::string_view text, std::vector<uint32_t>& lengths) {
  const Scanner scan(text);
  std::vector<uint32_t> words;
  for (size_t at = 0; at < text.size();) {
    const bool punctuation = IsDefaultPunctuation(scan, at, scan.At(at).cls);
    size_t end = at;
    while (end < text.size()) {
      const Scanner::Char c = scan.At(end);
      if (IsDefaultPunctuation(scan, end, c.cls) != punctuation) break;
      end += c.bytes;
    }
    words.clear();
    SplitBy<Gpt2End<false>>(text.substr(at, end - at), words);
    for (const uint32_t length : words) {
      SplitNumbers(text.substr(at, length), lengths);
      at += length;
    }
  }
}

}  // namespace

struct PreTokenizer::Row {
  std::string_view name;
  Kind kind;
  bool ignore_merges;
};

const PreTokenizer::Row PreTokenizer::kRows[] = {
    {"smollm", Kind::kDigitsGpt2, false},
    {"starcoder", Kind::kDigitsGpt2, false},
    {"refact", Kind::kDigitsGpt2, false},
    {"command-r", Kind::kDigitsGpt2, false},
    {"codeshell", Kind::kDigitsGpt2, false},
    {"exaone", Kind::kDigitsGpt2, false},
    {"gpt-2", Kind::kGpt2, false},
    {"gpt2", Kind::kGpt2, false},
    {"mpt", Kind::kGpt2, false},
    {"olmo", Kind::kGpt2, false},
    {"llama-bpe", Kind::kLlama3, true},
    {"llama3", Kind::kLlama3, true},
    {"llama-v3", Kind::kLlama3, true},
    {"dbrx", Kind::kLlama3, false},
    {"smaug-bpe", Kind::kLlama3, false},
    {"qwen2", Kind::kQwen2, false},
    {"stablelm2", Kind::kQwen2, false},
    {"deepseek-r1-qwen", Kind::kQwen2, false},
    {"default", Kind::kDefault, false},
};

Result<PreTokenizer> PreTokenizer::Find(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return PreTokenizer(row.kind, row.ignore_merges);
    if (!known.empty()) known += ", ";
    known += row.name;
  }
  return Err(Code::kUnsupported,
             "tokenizer.ggml.pre: pre-tokeniser '{}' is not supported; supported are {}", name,
             known);
}

void PreTokenizer::Split(std::string_view text, std::vector<uint32_t>& lengths) const {
  switch (kind_) {
    case Kind::kGpt2:
      return SplitBy<Gpt2End<false>>(text, lengths);
    case Kind::kDigitsGpt2:
      return SplitBy<Gpt2End<true>>(text, lengths);
    case Kind::kLlama3:
      return SplitBy<Llama3End<3>>(text, lengths);
    case Kind::kQwen2:
      return SplitBy<Llama3End<1>>(text, lengths);
    case Kind::kDefault:
      return SplitDefault(text, lengths);
  }
}

}  // namespace tandem::text

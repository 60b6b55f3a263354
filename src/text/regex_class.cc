#include "text/regex_class.h"

#include <string>

namespace tandem::text {
namespace {

struct NamedMask {
  std::string_view name;
  CategoryMask mask;
};

constexpr NamedMask kCategories[] = {
    {"l", kLetters},
    {"letter", kLetters},
    {"m", kMarks},
    {"mark", kMarks},
    {"n", kNumbers},
    {"number", kNumbers},
    {"p", kPunctuation},
    {"punctuation", kPunctuation},
    {"s", kSymbols},
    {"symbol", kSymbols},
    {"z", kSeparators},
    {"separator", kSeparators},
    {"c", kOthers},
    {"other", kOthers},
    {"cn", MaskOf(Category::kCn)},
    {"lu", MaskOf(Category::kLu)},
    {"ll", MaskOf(Category::kLl)},
    {"lt", MaskOf(Category::kLt)},
    {"lm", MaskOf(Category::kLm)},
    {"lo", MaskOf(Category::kLo)},
    {"mn", MaskOf(Category::kMn)},
    {"mc", MaskOf(Category::kMc)},
    {"me", MaskOf(Category::kMe)},
    {"nd", MaskOf(Category::kNd)},
    {"nl", MaskOf(Category::kNl)},
    {"no", MaskOf(Category::kNo)},
    {"pc", MaskOf(Category::kPc)},
    {"pd", MaskOf(Category::kPd)},
    {"ps", MaskOf(Category::kPs)},
    {"pe", MaskOf(Category::kPe)},
    {"pi", MaskOf(Category::kPi)},
    {"pf", MaskOf(Category::kPf)},
    {"po", MaskOf(Category::kPo)},
    {"sm", MaskOf(Category::kSm)},
    {"sc", MaskOf(Category::kSc)},
    {"sk", MaskOf(Category::kSk)},
    {"so", MaskOf(Category::kSo)},
    {"zs", MaskOf(Category::kZs)},
    {"zl", MaskOf(Category::kZl)},
    {"zp", MaskOf(Category::kZp)},
    {"cc", MaskOf(Category::kCc)},
    {"cf", MaskOf(Category::kCf)},
    {"cs", MaskOf(Category::kCs)},
    {"co", MaskOf(Category::kCo)},
};

struct ScriptRange {
  std::string_view name;
  char32_t first;
  char32_t last;
};

// Unicode 16, Scripts.txt.
constexpr ScriptRange kScripts[] = {
    {"han", 0x2E80, 0x2E99},        {"han", 0x2E9B, 0x2EF3},        {"han", 0x2F00, 0x2FD5},
    {"han", 0x3005, 0x3005},        {"han", 0x3007, 0x3007},        {"han", 0x3021, 0x3029},
    {"han", 0x3038, 0x303B},        {"han", 0x3400, 0x4DBF},        {"han", 0x4E00, 0x9FFF},
    {"han", 0xF900, 0xFA6D},        {"han", 0xFA70, 0xFAD9},        {"han", 0x16FE2, 0x16FE3},
    {"han", 0x16FF0, 0x16FF1},      {"han", 0x20000, 0x2A6DF},      {"han", 0x2A700, 0x2B739},
    {"han", 0x2B740, 0x2B81D},      {"han", 0x2B820, 0x2CEA1},      {"han", 0x2CEB0, 0x2EBE0},
    {"han", 0x2EBF0, 0x2EE5D},      {"han", 0x2F800, 0x2FA1D},      {"han", 0x30000, 0x3134A},
    {"han", 0x31350, 0x323AF},      {"hiragana", 0x3041, 0x3096},   {"hiragana", 0x309D, 0x309F},
    {"hiragana", 0x1B001, 0x1B11F}, {"hiragana", 0x1B132, 0x1B132}, {"hiragana", 0x1B150, 0x1B152},
    {"hiragana", 0x1F200, 0x1F200}, {"katakana", 0x30A1, 0x30FA},   {"katakana", 0x30FD, 0x30FF},
    {"katakana", 0x31F0, 0x31FF},   {"katakana", 0x32D0, 0x32FE},   {"katakana", 0x3300, 0x3357},
    {"katakana", 0xFF66, 0xFF6F},   {"katakana", 0xFF71, 0xFF9D},   {"katakana", 0x1AFF0, 0x1AFF3},
    {"katakana", 0x1AFF5, 0x1AFFB}, {"katakana", 0x1AFFD, 0x1AFFE}, {"katakana", 0x1B000, 0x1B000},
    {"katakana", 0x1B120, 0x1B122}, {"katakana", 0x1B155, 0x1B155}, {"katakana", 0x1B164, 0x1B167},
    {"hangul", 0x1100, 0x11FF},     {"hangul", 0x302E, 0x302F},     {"hangul", 0x3131, 0x318E},
    {"hangul", 0x3200, 0x321E},     {"hangul", 0x3260, 0x327E},     {"hangul", 0xA960, 0xA97C},
    {"hangul", 0xAC00, 0xD7A3},     {"hangul", 0xD7B0, 0xD7C6},     {"hangul", 0xD7CB, 0xD7FB},
    {"hangul", 0xFFA0, 0xFFBE},     {"hangul", 0xFFC2, 0xFFC7},     {"hangul", 0xFFCA, 0xFFCF},
    {"hangul", 0xFFD2, 0xFFD7},     {"hangul", 0xFFDA, 0xFFDC},     {"thai", 0x0E01, 0x0E3A},
    {"thai", 0x0E40, 0x0E5B},       {"lao", 0x0E81, 0x0E82},        {"lao", 0x0E84, 0x0E84},
    {"lao", 0x0E86, 0x0E8A},        {"lao", 0x0E8C, 0x0EA3},        {"lao", 0x0EA5, 0x0EA5},
    {"lao", 0x0EA7, 0x0EBD},        {"lao", 0x0EC0, 0x0EC4},        {"lao", 0x0EC6, 0x0EC6},
    {"lao", 0x0EC8, 0x0ECE},        {"lao", 0x0ED0, 0x0ED9},        {"lao", 0x0EDC, 0x0EDF},
    {"khmer", 0x1780, 0x17DD},      {"khmer", 0x17E0, 0x17E9},      {"khmer", 0x17F0, 0x17F9},
    {"khmer", 0x19E0, 0x19FF},      {"myanmar", 0x1000, 0x109F},    {"myanmar", 0xA9E0, 0xA9FE},
    {"myanmar", 0xAA60, 0xAA7F},    {"myanmar", 0x116D0, 0x116E3},
};

// Case, spaces, hyphens and underscores do not count.
std::string Folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return out;
}

CharRanges Alphabetic() {
  CharRanges out =
      CharRanges::Word().And(CharRanges::Of(kLetters | kMarks | MaskOf(Category::kNl) | kSymbols));
  return out;
}

}  // namespace

std::optional<CharRanges> ClassByPosixName(std::string_view name) {
  const std::string folded = Folded(name);
  if (folded == "alpha") return Alphabetic();
  if (folded == "digit") return CharRanges::Of(MaskOf(Category::kNd));
  if (folded == "space") return CharRanges::WhiteSpace();
  if (folded == "word") return CharRanges::Word();
  if (folded == "upper") return CharRanges::Of(MaskOf(Category::kLu));
  if (folded == "lower") return CharRanges::Of(MaskOf(Category::kLl));
  if (folded == "punct") return CharRanges::Of(kPunctuation | kSymbols);
  if (folded == "cntrl") return CharRanges::Of(MaskOf(Category::kCc));
  if (folded == "ascii") return CharRanges(0, 127);
  if (folded == "xdigit") return ClassByEscape('h');
  if (folded == "alnum") {
    CharRanges out = Alphabetic();
    out.Add(CharRanges::Of(MaskOf(Category::kNd)));
    return out;
  }
  if (folded == "blank") {
    CharRanges out = CharRanges::Of(MaskOf(Category::kZs));
    out.Add(CharRanges('\t', '\t'));
    return out;
  }
  return std::nullopt;
}

std::optional<CharRanges> ClassByProperty(std::string_view name) {
  const std::string folded = Folded(name);
  if (folded == "any") return CharRanges(0, 0x10FFFF);
  for (const NamedMask& named : kCategories) {
    if (named.name == folded) return CharRanges::Of(named.mask);
  }
  std::optional<CharRanges> out;
  for (const ScriptRange& range : kScripts) {
    if (range.name != folded) continue;
    if (!out) out.emplace();
    out->Add(CharRanges(range.first, range.last));
  }
  return out ? out : ClassByPosixName(name);
}

std::optional<CharRanges> ClassByEscape(char letter) {
  switch (letter) {
    case 's':
      return CharRanges::WhiteSpace();
    case 'd':
      return CharRanges::Of(MaskOf(Category::kNd));
    case 'w':
      return CharRanges::Word();
    case 'h': {
      CharRanges out('0', '9');
      out.Add(CharRanges('a', 'f'));
      out.Add(CharRanges('A', 'F'));
      return out;
    }
    case 'S':
    case 'D':
    case 'W':
    case 'H':
      return ClassByEscape(static_cast<char>(letter + 32))->Negated();
    default:
      return std::nullopt;
  }
}

}  // namespace tandem::text

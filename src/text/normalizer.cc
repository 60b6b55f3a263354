#include "text/normalizer.h"

#include <utf8proc.h>

#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/charsmap.h"
#include "text/normal_form.h"
#include "text/peer_unicode.h"
#include "text/regex.h"
#include "text/unicode_table.h"
#include "text/utf8.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

// Appends what `each(c, out)` makes of every character.
template <class Each>
void ForEachChar(std::string_view text, std::string& out, Each each) {
  for (size_t at = 0; at < text.size();) {
    const ScannedChar c = ScanChar(text.data() + at);
    at += c.bytes;
    each(c.value, out);
  }
}

void AppendLower(char32_t c, std::string& out) {
  if (c < 128) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out.append("i\u0307");  // the one character whose lower case is two
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void AppendClean(char32_t c, std::string& out) {
  if (c == '\t' || c == '\n' || c == '\r') {
    out.push_back(' ');
    return;
  }
  constexpr CategoryMask kControls =
      MaskOf(Category::kCc) | MaskOf(Category::kCf) | MaskOf(Category::kCo);
  if (c == 0xFFFD || IsIn(c, kControls) != BertControlDiffers(c)) return;
  if (IsWhiteSpace(c)) {
    out.push_back(' ');
  } else {
    AppendUtf8(c, out);
  }
}

void Bert(std::string_view text, uint32_t flags, std::string& out) {
  std::string other;
  std::string now(text);
  const auto pass = [&](auto each) {
    other.clear();
    ForEachChar(now, other, each);
    std::swap(now, other);
  };
  if ((flags & kBertCleanText) != 0) pass(AppendClean);
  if ((flags & kBertChineseChars) != 0) {
    pass([](char32_t c, std::string& to) {
      const bool chinese = IsChinese(c);
      if (chinese) to.push_back(' ');
      AppendUtf8(c, to);
      if (chinese) to.push_back(' ');
    });
  }
  if ((flags & kBertStripAccents) != 0) {
    other.clear();
    if (Normalise(NormalForm::kNfd, now, other)) std::swap(now, other);
    pass([](char32_t c, std::string& to) {
      if (c < 128 || IsIn(c, MaskOf(Category::kMn)) == BertMarkDiffers(c)) AppendUtf8(c, to);
    });
  }
  if ((flags & kBertLowercase) != 0) pass(AppendLower);
  out.append(now);
}

void AppendNmt(char32_t c, std::string& out) {
  const bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                       c == 0x8F || c == 0x9F;
  if (dropped) return;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (space) {
    out.push_back(' ');
  } else {
    AppendUtf8(c, out);
  }
}

std::string_view StripSpaces(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const ScannedChar c = ScanChar(text.data());
    if (!IsWhiteSpace(c.value)) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    const size_t last = PreviousChar(text, text.size());
    if (!IsWhiteSpace(ScanChar(text.data() + last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

void NfdFirst(std::string_view text, std::string& out) {
  std::string form;
  for (size_t at = 0; at < text.size();) {
    const std::string_view c = text.substr(at, CharBytes(text[at]));
    at += c.size();
    form.clear();
    const bool changes = Normalise(NormalForm::kNfd, c, form);
    out.append(changes ? std::string_view(form).substr(0, CharBytes(form[0])) : c);
  }
}

void SqueezeSpaces(std::string_view text, std::string& out) {
  bool pending = false;
  const size_t start = out.size();
  for (const char c : text) {
    if (c == ' ') {
      pending = true;
      continue;
    }
    if (pending && out.size() > start) out.push_back(' ');
    pending = false;
    out.push_back(c);
  }
}

// False: there is none.
bool ReplaceText(std::string_view text, std::string_view what, std::string_view with, size_t most,
                 std::string& out) {
  size_t found = what.empty() ? std::string_view::npos : text.find(what);
  if (found == std::string_view::npos) return false;
  size_t done = 0;
  while (found != std::string_view::npos && out.size() < most) {
    out.append(text.substr(done, found - done)).append(with);
    done = found + what.size();
    found = text.find(what, done);
  }
  out.append(text.substr(done));
  return true;
}

bool ReplaceMatches(std::string_view text, const Regex& regex, std::string_view with, size_t most,
                    std::string& out) {
  std::vector<Regex::Match> matches;
  regex.FindAll(text, matches);
  if (matches.empty()) return false;
  size_t done = 0;
  for (const Regex::Match& match : matches) {
    if (out.size() >= most) break;
    out.append(text.substr(done, match.begin - done)).append(with);
    done = match.end;
  }
  out.append(text.substr(done));
  return true;
}

bool Prepend(std::string_view text, const PipelineStep<NormalizerKind>& step, bool at_start,
             std::string& out) {
  if (text.empty()) return false;
  if ((step.flags & kPrependOnlyFirst) != 0 && !at_start) return false;
  if ((step.flags & kPrependUnlessBlank) != 0 && text.find_first_not_of(' ') == text.npos) {
    return false;
  }
  out.append(step.content).append(text);
  return true;
}

}  // namespace

struct Normalizer::Step {
  PipelineStep<NormalizerKind> data;
  std::optional<Regex> regex;
  std::optional<Charsmap> charsmap;

  // Appends the result to `out`, or returns false if the text stays as it is.
  bool Apply(std::string_view text, bool at_start, size_t most, std::string& out) const;
};

bool Normalizer::Step::Apply(std::string_view text, bool at_start, size_t most,
                             std::string& out) const {
  switch (data.kind) {
    case NormalizerKind::kNfc:
      return Normalise(NormalForm::kNfc, text, out);
    case NormalizerKind::kNfd:
      return Normalise(NormalForm::kNfd, text, out);
    case NormalizerKind::kNfkc:
      return Normalise(NormalForm::kNfkc, text, out);
    case NormalizerKind::kNfkd:
      return Normalise(NormalForm::kNfkd, text, out);
    case NormalizerKind::kLowercase:
      ForEachChar(text, out, AppendLower);
      return true;
    case NormalizerKind::kStripAccents:
      ForEachChar(text, out, [](char32_t c, std::string& to) {
        if (c < 128 || IsIn(c, kMarks) == StripMarkDiffers(c)) AppendUtf8(c, to);
      });
      return true;
    case NormalizerKind::kStrip:
      out.append(StripSpaces(text, (data.flags & 1) != 0, (data.flags & 2) != 0));
      return true;
    case NormalizerKind::kReplaceText:
      return ReplaceText(text, data.text, data.content, most, out);
    case NormalizerKind::kReplaceRegex:
      return ReplaceMatches(text, *regex, data.content, most, out);
    case NormalizerKind::kPrepend:
      return Prepend(text, data, at_start, out);
    case NormalizerKind::kBert:
      Bert(text, data.flags, out);
      return true;
    case NormalizerKind::kNmt:
      ForEachChar(text, out, AppendNmt);
      return true;
    case NormalizerKind::kCharsmapHf:
      charsmap->AppendByGraphemes(text, out);
      return true;
    case NormalizerKind::kCharsmapSpm:
      charsmap->AppendLongest(text, out);
      return true;
    case NormalizerKind::kByteLevel:
      AppendSymbolsOfBytes(text, out);
      return true;
    case NormalizerKind::kSqueezeSpaces:
      SqueezeSpaces(text, out);
      return true;
    case NormalizerKind::kNfdFirst:
      NfdFirst(text, out);
      return true;
  }
  return false;
}

Normalizer::Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
Normalizer::Normalizer(Normalizer&&) noexcept = default;
Normalizer& Normalizer::operator=(Normalizer&&) noexcept = default;
Normalizer::~Normalizer() = default;

Result<Normalizer> Normalizer::Create(const std::vector<PipelineStep<NormalizerKind>>& steps) {
  std::vector<Step> made;
  for (const PipelineStep<NormalizerKind>& data : steps) {
    Step step{.data = data, .regex = std::nullopt, .charsmap = std::nullopt};
    if (data.kind == NormalizerKind::kReplaceRegex) {
      TRY_ASSIGN(step.regex, Regex::Compile(data.text));
    }
    if (data.kind == NormalizerKind::kCharsmapHf || data.kind == NormalizerKind::kCharsmapSpm) {
      TRY_ASSIGN(step.charsmap, Charsmap::Parse(data.text));
    }
    made.push_back(std::move(step));
  }
  return Normalizer(std::move(made));
}

std::string_view Normalizer::Apply(std::string_view text, bool at_start, Buffers& buffers) const {
  const size_t most = 64 * text.size() + 65536;
  std::string* target = &buffers.first;
  std::string* other = &buffers.second;
  for (const Step& step : steps_) {
    target->clear();
    // Twice as much is the most that a step adds after the last replacement that `most` allows.
    if (!step.Apply(text, at_start, most, *target) || target->size() > 2 * most) continue;
    text = *target;
    std::swap(target, other);
  }
  return text;
}

}  // namespace tandem::text

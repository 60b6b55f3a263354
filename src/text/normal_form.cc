#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "text/peer_unicode.h"
#include "text/unicode_table.h"
#include "text/utf8.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

// Whether the character and those after it can be taken apart from those before it without a look
// at them: nothing joins across, nothing is reordered.
bool IsInert(NormalForm form, char32_t c) {
  if (c < 128) return true;
  if (form == NormalForm::kNfc) return !MayChangeUnderNfc(c);
  // The Latin-1 letters and everything else may decompose; Han ideographs of the first block do
  // not.
  return c >= 0x4E00 && c <= 0x9FFF;
}

utf8proc_option_t Options(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void AppendSpan(NormalForm form, std::string_view span, std::string& out) {
  const utf8proc_option_t options = Options(form);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(span.data());
  const auto size = static_cast<utf8proc_ssize_t>(span.size());
  std::vector<utf8proc_int32_t> code_points(span.size() * 4 + 16);
  utf8proc_ssize_t count = 0;
  // The longest decomposition is 18 code points; most need less than one a byte.
  while (true) {
    count = utf8proc_decompose(bytes, size, code_points.data(),
                               static_cast<utf8proc_ssize_t>(code_points.size()), options);
    if (count < 0 || static_cast<size_t>(count) <= code_points.size()) break;
    code_points.resize(static_cast<size_t>(count));
  }
  if (count >= 0) count = utf8proc_normalize_utf32(code_points.data(), count, options);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(code_points[static_cast<size_t>(i)]), out);
  }
}

// Characters that the library knows no form of, or takes for letters.
bool IsLeftAlone(NormalForm form, char32_t c) {
  if (c < 128) return false;
  const bool compatibility = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return HasNewCombiningClass(c) || (compatibility && HasNewCompatibilityForm(c));
}

// Where the first character is that is not inert, or the end.
size_t FindActive(NormalForm form, std::string_view text, size_t at) {
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const ScannedChar c = ScanChar(text.data() + at);
    if (!IsInert(form, c.value)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

bool Normalise(NormalForm form, std::string_view text, std::string& out) {
  size_t active = FindActive(form, text, 0);
  if (active == text.size()) return false;
  size_t done = 0;
  while (active < text.size()) {
    // An active character may join the one before it.
    size_t begin = active;
    if (begin > done) begin = PreviousChar(text, begin);
    size_t end = active;
    while (end < text.size()) {
      const ScannedChar c = ScanChar(text.data() + end);
      if (IsInert(form, c.value) || IsLeftAlone(form, c.value)) break;
      end += c.bytes;
    }
    out.append(text.substr(done, begin - done));
    AppendSpan(form, text.substr(begin, end - begin), out);
    done = end;
    if (done < text.size()) {
      const ScannedChar c = ScanChar(text.data() + done);
      if (IsLeftAlone(form, c.value)) {
        out.append(text.substr(done, c.bytes));
        done += c.bytes;
      }
    }
    active = FindActive(form, text, done);
  }
  out.append(text.substr(done));
  return true;
}

}  // namespace tandem::text

#include "text/unicode.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace tandem::text {
namespace {

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t Lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t Upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t Title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

bool IsCased(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

void AppendUpper(char32_t c, bool title, std::string& out) {
  // The one letter in common use whose upper case is two letters.
  if (c == 0xDF) {
    out += title ? "Ss" : "SS";
  } else {
    AppendUtf8(title ? Title(c) : Upper(c), out);
  }
}

template <class Each>
void ForEach(std::string_view text, Each each) {
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    each(c.value);
    text.remove_prefix(c.bytes);
  }
}

template <class In>
std::string_view StripLeftIf(std::string_view text, In in) {
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    if (!in(c.value, text.substr(0, c.bytes))) break;
    text.remove_prefix(c.bytes);
  }
  return text;
}

template <class In>
std::string_view StripRightIf(std::string_view text, In in) {
  while (!text.empty()) {
    const std::string_view last = LastCharacter(text);
    if (!in(DecodeUtf8(last).value, last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

bool SpaceOnly(char32_t c, std::string_view) { return IsPythonSpace(c); }

}  // namespace

bool IsPythonSpace(char32_t c) {
  if (c < 128) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  if (c == 0x85) return true;
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool IsAlpha(char32_t c) {
  return IsCased(c) || CategoryOf(c) == UTF8PROC_CATEGORY_LM ||
         CategoryOf(c) == UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsNumeric(char32_t c) {
  return IsDecimal(c) || CategoryOf(c) == UTF8PROC_CATEGORY_NL ||
         CategoryOf(c) == UTF8PROC_CATEGORY_NO;
}

bool IsLower(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LL; }
bool IsUpper(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LU; }

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEach(text, [&](char32_t c) { AppendUtf8(Lower(c), out); });
  return out;
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEach(text, [&](char32_t c) { AppendUpper(c, false, out); });
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  bool inside = false;
  ForEach(text, [&](char32_t c) {
    if (inside) {
      AppendUtf8(Lower(c), out);
    } else {
      AppendUpper(c, true, out);
    }
    inside = IsCased(c);
  });
  return out;
}

std::string Capitalise(std::string_view text) {
  std::string out;
  bool first = true;
  ForEach(text, [&](char32_t c) {
    if (first) {
      AppendUpper(c, true, out);
    } else {
      AppendUtf8(Lower(c), out);
    }
    first = false;
  });
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  ForEach(text, [&](char32_t c) {
    if (IsUpper(c)) {
      AppendUtf8(Lower(c), out);
    } else {
      AppendUpper(c, false, out);
    }
  });
  return out;
}

std::string_view LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(at);
}

std::string_view StripLeft(std::string_view text) { return StripLeftIf(text, SpaceOnly); }
std::string_view StripRight(std::string_view text) { return StripRightIf(text, SpaceOnly); }

std::string_view StripLeftOf(std::string_view text, std::string_view set) {
  return StripLeftIf(
      text, [set](char32_t, std::string_view c) { return set.find(c) != std::string_view::npos; });
}

std::string_view StripRightOf(std::string_view text, std::string_view set) {
  return StripRightIf(
      text, [set](char32_t, std::string_view c) { return set.find(c) != std::string_view::npos; });
}

}  // namespace tandem::text

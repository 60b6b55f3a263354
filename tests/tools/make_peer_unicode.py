#!/usr/bin/env python3
"""Writes src/text/peer_unicode.cc: where Hugging Face tokenizers, some of whose steps know an older Unicode, differs
from Unicode 16. Asks the library about every code point. Needs the packages tokenizers 0.23.3, unicodedata2 16.0.0."""
import os
import unicodedata

import unicodedata2 as unicode
from tokenizers import normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "text", "peer_unicode.cc")
CHARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(chars):
    out = []
    for n in sorted(map(ord, chars)):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def table(name, chars):
    lines, line = [], "   "
    for first, last in ranges(chars):
        word = f"{{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(word) + 1 > 100:
            lines.append(line)
            line = "   "
        line += " " + word
    return [f"constexpr CodeRange {name}[] = {{", *lines, line, "};"]


def test(name, table_name):
    return [f"bool {name}(char32_t c) {{ return Contains({table_name}, c); }}"]


def main():
    category = {c: unicode.category(c) for c in CHARS}
    bert = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    strip = normalizers.StripAccents()
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    split = pre_tokenizers.Punctuation("isolated")
    plain = [c for c in CHARS if unicodedata.normalize("NFD", c) == c]
    bert_marks = {c for c in plain if bert.normalize_str("a" + c) == "a"} ^ {c for c in plain if category[c] == "Mn"}
    strip_marks = {c for c in CHARS if strip.normalize_str("a" + c) == "a"} ^ {c for c in CHARS if category[c][0] == "M"}
    cleaned = {c for c in CHARS if clean.normalize_str("a" + c + "a") == "aa"}
    controls = {c for c in CHARS if category[c] in ("Cc", "Cf", "Co") and c not in "\t\n\r"} | {"\ufffd"}
    punctuation = {c for c in CHARS if len(split.pre_tokenize_str("a" + c + "a")) > 1}
    known = {c for c in CHARS if category[c][0] == "P" or (ord(c) < 128 and category[c][0] == "S")}
    compat = {c for c in CHARS if normalizers.NFKD().normalize_str(c) == c != unicodedata.normalize("NFKD", c)}
    # Marks that the library does not move past others: it takes them for letters.
    nfd = normalizers.NFD()
    unmoved = set()
    for c in CHARS:
        klass = unicodedata.combining(c)
        pair = "a" + c + "\u0334" if klass > 1 else "a\u0345" + c
        if klass and nfd.normalize_str(pair) != unicodedata.normalize("NFD", pair):
            unmoved.add(c)
    text = ["// Made by tests/tools/make_peer_unicode.py; do not edit.", '#include "text/peer_unicode.h"', "",
            "#include <algorithm>", "#include <iterator>", "", "namespace tandem::text {", "namespace {",
            "struct CodeRange {", "  char32_t first;", "  char32_t last;", "};",
            "template <size_t kSize>", "bool Contains(const CodeRange (&ranges)[kSize], char32_t c) {",
            "  const auto* found = std::lower_bound(std::begin(ranges), std::end(ranges), c,",
            "                                       [](const CodeRange& r, char32_t x) { return r.last < x; });",
            "  return found != std::end(ranges) && found->first <= c;", "}", "// clang-format off",
            *table("kBertMarks", bert_marks), *table("kStripMarks", strip_marks),
            *table("kControls", cleaned ^ controls), *table("kPunctuationDiffers", punctuation ^ known),
            *table("kCompatibility", compat), *table("kUnmoved", unmoved), "// clang-format on", "}  // namespace", "",
            *test("BertMarkDiffers", "kBertMarks"), *test("StripMarkDiffers", "kStripMarks"),
            *test("BertControlDiffers", "kControls"), *test("PunctuationDiffers", "kPunctuationDiffers"),
            *test("HasNewCompatibilityForm", "kCompatibility"), *test("HasNewCombiningClass", "kUnmoved"), "", "}  // namespace tandem::text", ""]
    with open(OUT, "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    print(f"wrote {os.path.normpath(OUT)}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes src/text/unicode_table.cc: general categories and normalisation hints of Unicode 16, the version that the
regular expressions of Hugging Face tokenizers know. Needs the package unicodedata2 16.0.0."""
import os
import sys

import unicodedata2 as unicode

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "text", "unicode_table.cc")
CATEGORIES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
              "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"]
LAST = 0x10FFFF


def category_starts():
    """(first code point, category) of every run of equal categories."""
    runs = []
    for c in range(LAST + 1):
        category = CATEGORIES.index(unicode.category(chr(c)))
        if not runs or runs[-1][1] != category:
            runs.append((c, category))
    return runs


def unsafe_for_nfc():
    """Code points that NFC may change or join to the one before, or whose order it may change."""
    seconds = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for c in range(LAST + 1):
        parts = unicode.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(int(parts[1], 16))
    for c in range(LAST + 1):
        if 0xD800 <= c < 0xE000:
            continue
        text = chr(c)
        if c in seconds or unicode.combining(text) or unicode.normalize("NFC", text) != text:
            yield c


def ranges(numbers):
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def rows(words):
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + word + ","
    return lines + [line]


def main():
    if unicode.unidata_version != "16.0.0":
        sys.exit("error: unicodedata2 is not 16.0.0\nremedy: pip install unicodedata2==16.0.0")
    starts = category_starts()
    unsafe = ranges(unsafe_for_nfc())
    text = ["// Made by tests/tools/make_unicode_table.py from Unicode 16; do not edit.",
            '#include "text/unicode_table.h"', "", "namespace tandem::text::internal {", "// clang-format off",
            "const uint32_t kCategoryStarts[] = {", *rows(f"0x{c << 5 | k:X}" for c, k in starts), "};",
            "const size_t kCategoryStartCount = sizeof(kCategoryStarts) / sizeof(kCategoryStarts[0]);",
            "const char32_t kUnsafeForNfc[][2] = {", *rows(f"{{0x{a:X}, 0x{b:X}}}" for a, b in unsafe), "};",
            "const size_t kUnsafeForNfcCount = sizeof(kUnsafeForNfc) / sizeof(kUnsafeForNfc[0]);",
            "// clang-format on", "}  // namespace tandem::text::internal", ""]
    with open(OUT, "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    print(f"wrote {os.path.normpath(OUT)}: {len(starts)} runs, {len(unsafe)} ranges")


if __name__ == "__main__":
    main()

#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::text {
namespace {

std::string Lossy(std::string_view bytes) {
  std::string out;
  AppendLossy(bytes, out);
  return out;
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, text);
    const CodePoint back = DecodeUtf8(text);
    ASSERT_TRUE(back.valid && back.value == c) << static_cast<uint32_t>(c);
    ASSERT_EQ(back.bytes, text.size());
    ASSERT_TRUE(IsValidUtf8(text));
  }
}

// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, BrokenSequencesBecomeOneReplacementPerMaximalSubpart) {
  EXPECT_EQ(Lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\u0041");
  EXPECT_EQ(Lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\u0041");
  EXPECT_EQ(Lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\u0041\uFFFD\uFFFD\u0042");
  EXPECT_EQ(Lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\u0041");
  EXPECT_EQ(Lossy("a\xE2\x82"), "a\uFFFD");
}

TEST(Utf8, PiecesGiveWhatTheWholeGives) {
  std::mt19937 random(1);
  const std::string_view parts[] = {"a",    "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "\x80",
                                    "\xE4", "\xF0\x9F", "\xFF",         "\xED\xA0\x80"};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t i = 0; i < random() % 12; ++i) bytes += parts[random() % std::size(parts)];
    Utf8Decoder decoder;
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(random() % 4, bytes.size() - at);
      decoder.Push(std::string_view(bytes).substr(at, size), out);
      EXPECT_TRUE(IsValidUtf8(out));
      at += size;
    }
    decoder.Flush(out);
    EXPECT_EQ(out, Lossy(bytes));
  }
}

TEST(Utf8, CountsAndOffsets) {
  const std::string text = "aé中😀";
  EXPECT_EQ(CountCodePoints(text), 4u);
  EXPECT_EQ(OffsetOfCodePoint(text, 2), 3u);
  EXPECT_EQ(OffsetOfCodePoint(text, 9), text.size());
}

}  // namespace
}  // namespace tandem::text

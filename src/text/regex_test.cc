// The regular expressions against PCRE2, and what PCRE2 does not know.
#include "text/regex.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace tandem::text {
namespace {

using Pieces = std::vector<std::string>;

using Pcre = std::unique_ptr<pcre2_code, void (*)(pcre2_code*)>;

Pcre CompilePcre(const char* pattern) {
  int error = 0;
  PCRE2_SIZE at_error = 0;
  Pcre code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &error, &at_error, nullptr),
            pcre2_code_free);
  EXPECT_NE(code, nullptr) << pattern;
  return code;
}

// Matches and what lies between them, each a piece.
Pieces PiecesOf(const Pcre& code, const std::string& text) {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
  Pieces pieces;
  size_t done = 0;
  while (done < text.size()) {
    const int found = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), done, 0, match.get(), nullptr);
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(match.get());
    const size_t start = found > 0 ? at[0] : text.size();
    if (start > done) pieces.push_back(text.substr(done, start - done));
    if (found <= 0) break;
    pieces.push_back(text.substr(start, at[1] - start));
    done = at[1];
  }
  return pieces;
}

Pieces PiecesOf(const Regex& regex, const std::string& text) {
  std::vector<Regex::Match> matches;
  regex.FindAll(text, matches);
  Pieces pieces;
  size_t done = 0;
  for (const Regex::Match& match : matches) {
    if (match.begin > done) pieces.push_back(text.substr(done, match.begin - done));
    if (match.end > match.begin) {
      pieces.push_back(text.substr(match.begin, match.end - match.begin));
    }
    done = match.end;
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
  return pieces;
}

Pieces Ours(const char* pattern, const std::string& text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message;
  return PiecesOf(*regex, text);
}

std::string RandomText(std::mt19937& random) {
  // Characters in which Debian's PCRE2 and utf8proc agree: both know Unicode 14.
  static constexpr std::string_view kParts[] = {
      "a", "Z",  "é",  "ß",  "ſ",  "中",     "한",     "ب",      "0",      "7",      "٣",
      "½", "Ⅷ",  "'",  "'s", "'S", "'ll",    "'LL",    "'re",    "'v",     "'d",     " ",
      " ", "  ", "\t", "\n", "\r", "\r\n",   "\u00a0", "\u3000", "\u0085", "\u2028", ".",
      ",", "!",  "-",  "_",  "$",  "+",      "<",      "|",      "`",      "~",      "^",
      "(", "“",  "…",  "€",  "😀", "\u0301", "\u200d", "\x01",   "\x7f"};
  std::string text;
  for (size_t i = 0; i < random() % 16; ++i) text += kParts[random() % std::size(kParts)];
  return text;
}

TEST(Regex, EqualsPcre2) {
  const char* patterns[] = {
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+"
      "[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "[!-/:-@]+?[a-zA-Z]|(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+",
      "(?<=\\p{L})'|(?<!\\s)[.,]|\\bA\\b|(?>a|ab)c|a{2,3}?|x*+x|(?:ab){2}",
      "((?=\\p{L})([^a-z]))*((?=\\p{L})([^A-Z]))+|\\d+(?=(?:\\d{3})*!)",
      "\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|[^\\n]+|\\A-|-\\z",
  };
  for (const char* pattern : patterns) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex) << regex.error().message;
    const Pcre code = CompilePcre(pattern);
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
      const std::string text = RandomText(random);
      ASSERT_EQ(PiecesOf(*regex, text), PiecesOf(code, text)) << pattern << " on '" << text << "'";
    }
  }
}

TEST(Regex, WhatOnlyOnigurumaKnows) {
  // Sets in sets, intersections, POSIX names, \h for hexadecimal digits, ^ at every line.
  EXPECT_EQ(Ours("[^(\\s|[.,!?。])]+", "ab, c(d"), (Pieces{"ab", ", ", "c", "(", "d"}));
  EXPECT_EQ(Ours("[\\p{L}&&[^\\p{Han}]]+", "ab中c"), (Pieces{"ab", "中", "c"}));
  EXPECT_EQ(Ours("[[:punct:]]", "a+b"), (Pieces{"a", "+", "b"}));
  EXPECT_EQ(Ours("\\h+", "xFfg"), (Pieces{"x", "Ff", "g"}));
  EXPECT_EQ(Ours("\\bx", "½x x"), (Pieces{"½x ", "x"}));
  EXPECT_EQ(Ours("^.", "ab\ncd"), (Pieces{"a", "b\n", "c", "d"}));
  EXPECT_EQ(Ours("\\x{1F600}|\\u00e9|\\n", "é\n😀!"), (Pieces{"é", "\n", "😀", "!"}));
}

TEST(Regex, RefusesByName) {
  for (const char* pattern : {"(", ")", "[a", "a{3,1}", "*a", "\\p{Klingon}", "\\1", "(?x:a)",
                              "a{2000}", "((a|b){900}){900}", "\\", "[b-a]", "(?<=a+)b"}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_FALSE(regex.error().message.empty());
  }
}

TEST(Regex, EndlessBacktrackingEnds) {
  const auto regex = Regex::Compile("(a+)+b|(a*)*c|(?:a|a)*d");
  ASSERT_TRUE(regex);
  std::vector<Regex::Match> matches;
  regex->FindAll(std::string(100000, 'a'), matches);
  EXPECT_TRUE(matches.empty());
}

}  // namespace
}  // namespace tandem::text

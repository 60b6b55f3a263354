// The hand-coded splits against the regular expressions they stand for.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <random>

#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr char kGpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr char kLlama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kQwen2[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct Case {
  const char* name;
  std::vector<const char*> stages;  // each splits what the one before left
};

// Matches and what lies between them, each a piece.
std::vector<std::string> SplitOnce(const char* pattern, const std::string& text) {
  int error = 0;
  PCRE2_SIZE at_error = 0;
  const std::unique_ptr<pcre2_code, void (*)(pcre2_code*)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP, &error, &at_error, nullptr),
      pcre2_code_free);
  EXPECT_NE(code, nullptr) << pattern;
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
  std::vector<std::string> pieces;
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

std::vector<std::string> Reference(const Case& each, const std::string& text) {
  std::vector<std::string> pieces{text};
  for (const char* stage : each.stages) {
    std::vector<std::string> next;
    for (const std::string& piece : pieces) {
      for (std::string& part : SplitOnce(stage, piece)) next.push_back(std::move(part));
    }
    pieces = std::move(next);
  }
  return pieces;
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

TEST(PreTokenizer, EqualsItsRegularExpression) {
  const Case cases[] = {
      {"gpt-2", {kGpt2}},
      {"smollm", {"\\p{N}", kGpt2}},
      {"starcoder", {"\\p{N}", kGpt2}},
      {"llama-bpe", {kLlama3}},
      {"qwen2", {kQwen2}},
      {"default", {"[\\p{P}\\$\\+<=>\\^\\~\\|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}},
  };
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = RandomText(random);
    for (const Case& each : cases) {
      const auto pre = PreTokenizer::Find(each.name);
      ASSERT_TRUE(pre);
      std::vector<uint32_t> lengths;
      pre->Split(text, lengths);
      std::vector<std::string> got;
      size_t at = 0;
      for (const uint32_t length : lengths) {
        got.push_back(text.substr(at, length));
        at += length;
      }
      EXPECT_EQ(at, text.size());
      ASSERT_EQ(got, Reference(each, text)) << each.name << " on '" << text << "'";
    }
  }
}

TEST(PreTokenizer, AnEmptyNameIsTheDefault) {
  EXPECT_TRUE(PreTokenizer::Find(""));
  EXPECT_FALSE(PreTokenizer::Find("gpt-2x"));
}

}  // namespace
}  // namespace tandem::text

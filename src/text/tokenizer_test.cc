// The tokeniser on a small vocabulary made here.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/gguf_vocabulary.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

using Ids = std::vector<int32_t>;

// All bytes but 0x04 and 0xFF as their own tokens, some merges, three special tokens.
GgufVocabulary SmallVocabulary() {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "smollm";
  const auto add = [&](std::string text, TokenType type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.token_types.push_back(static_cast<int32_t>(type));
  };
  for (int b = 0; b < 256; ++b) {
    if (b != 0x04 && b != 0xFF) add(SymbolOfByte(static_cast<uint8_t>(b)), TokenType::kNormal);
  }
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{{"h", "e"},
                                                                                    {"l", "l"},
                                                                                    {"he", "ll"},
                                                                                    {"hell", "o"},
                                                                                    {"Ġ", "hello"},
                                                                                    {"a", "a"},
                                                                                    {"aa", "aa"},
                                                                                    {"Ã", "©"},
                                                                                    {"b", "c"},
                                                                                    {"a", "b"},
                                                                                    {"ab", "c"}}) {
    add(left + right, TokenType::kNormal);
    vocabulary.merges.push_back(left + " " + right);
  }
  add("<|stop|>", TokenType::kControl);
  add("<|stop|>>", TokenType::kControl);
  add("<user>", TokenType::kUserDefined);
  return vocabulary;
}

TokenizerSpec SmallSpec() { return *ReadGgufVocabulary(SmallVocabulary()); }

std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

int32_t IdOf(const TokenizerSpec& spec, std::string_view token) {
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  EXPECT_NE(found, spec.tokens.end()) << token;
  return static_cast<int32_t>(found - spec.tokens.begin());
}

TEST(Tokenizer, MergesInOrderOfRank) {
  const TokenizerSpec spec = SmallSpec();
  const auto tokenizer = Make(spec);
  EXPECT_EQ(tokenizer->Encode("hello hello"), (Ids{IdOf(spec, "hello"), IdOf(spec, "Ġhello")}));
  // "b c" ranks before "a b", so that "ab" never forms here.
  EXPECT_EQ(tokenizer->Encode("abc"), (Ids{IdOf(spec, "a"), IdOf(spec, "bc")}));
  EXPECT_EQ(tokenizer->Encode("aaaaa"), (Ids{IdOf(spec, "aaaa"), IdOf(spec, "a")}));
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(Tokenizer, SpecialTokensInTheText) {
  const TokenizerSpec spec = SmallSpec();
  const auto tokenizer = Make(spec);
  const Ids end{IdOf(spec, "<|stop|>")};
  EXPECT_EQ(tokenizer->Encode("<|stop|>"), end);
  EXPECT_EQ(tokenizer->Encode("<|stop|>>"), (Ids{IdOf(spec, "<|stop|>>")}));
  EXPECT_EQ(tokenizer->Encode("a<|stop|>b"), (Ids{IdOf(spec, "a"), end[0], IdOf(spec, "b")}));
  EXPECT_EQ(tokenizer->Encode("<|stop|>", {.parse_special = false}).size(), 8u);
  EXPECT_EQ(tokenizer->Encode("<user>", {.parse_special = false}), (Ids{IdOf(spec, "<user>")}));
  EXPECT_TRUE(tokenizer->IsSpecial(end[0]));
  EXPECT_FALSE(tokenizer->IsSpecial(IdOf(spec, "<user>")));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a<|stop|><user>"), true), "a<user>");
}

TEST(Tokenizer, BeginningAndEndTokens) {
  TokenizerSpec spec = SmallSpec();
  const int32_t end = IdOf(spec, "<|stop|>");
  spec.prefix = {end};
  spec.suffix = {end};
  const auto tokenizer = Make(spec);
  EXPECT_EQ(tokenizer->Encode("a"), (Ids{end, IdOf(spec, "a"), end}));
  EXPECT_EQ(tokenizer->Encode("a", {.add_special_tokens = false}), (Ids{IdOf(spec, "a")}));
}

TEST(Tokenizer, MissingByteSymbolsAreLeftOutAndBrokenTextIsReplaced) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(tokenizer->Encode("hello \x04"), tokenizer->Encode("hello "));
  EXPECT_EQ(tokenizer->Encode("-\x04-"), tokenizer->Encode("--"));
  EXPECT_EQ(tokenizer->Encode("\xFF"), tokenizer->Encode("\uFFFD"));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 200; ++i) bytes += static_cast<char>(random());
    EXPECT_TRUE(IsValidUtf8(tokenizer->Decode(tokenizer->Encode(bytes), false)));
  }
}

TEST(Tokenizer, IdsOutsideTheVocabularyGiveNothing) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(tokenizer->Decode(Ids{-1, 1 << 30, tokenizer->VocabSize()}, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(-5), "");
  EXPECT_FALSE(tokenizer->IsValid(tokenizer->VocabSize()));
}

// Long words take another path than short ones; both must merge alike.
TEST(Tokenizer, LongWordsMergeAsShortOnesDo) {
  const TokenizerSpec spec = SmallSpec();
  const std::vector<std::string> merges = SmallVocabulary().merges;
  const auto tokenizer = Make(spec);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string word;
    const size_t length = 30 + random() % 60;
    for (size_t i = 0; i < length; ++i) word += "abchelo"[random() % 7];
    // The reference: the lowest rank, leftmost first, over a plain vector.
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    while (true) {
      size_t best_rank = merges.size();
      size_t best_at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        for (size_t rank = 0; rank < best_rank; ++rank) {
          if (merges[rank] != symbols[i] + " " + symbols[i + 1]) continue;
          best_rank = rank;
          best_at = i;
        }
      }
      if (best_rank == merges.size()) break;
      symbols[best_at] += symbols[best_at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
    Ids want;
    for (const std::string& symbol : symbols) want.push_back(IdOf(spec, symbol));
    EXPECT_EQ(tokenizer->Encode(word), want) << word;
  }
}

TEST(Tokenizer, AMegabyteOfOneLetterIsNoTrap) {
  const auto tokenizer = Make(SmallSpec());
  EXPECT_EQ(tokenizer->Encode(std::string(1 << 20, 'a')).size(), size_t{1} << 18);
  EXPECT_EQ(tokenizer->Encode(std::string(1 << 20, ' ')).size(), size_t{1} << 20);
}

TEST(Tokenizer, NamesWhatIsNotSupported) {
  GgufVocabulary vocabulary = SmallVocabulary();
  vocabulary.pre = "no-such-split";
  auto made = ReadGgufVocabulary(vocabulary);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnsupported);
  EXPECT_NE(made.error().message.find("no-such-split"), std::string::npos);
  EXPECT_NE(made.error().message.find("smollm"), std::string::npos);
  vocabulary = SmallVocabulary();
  vocabulary.model = "rwkv";
  EXPECT_EQ(ReadGgufVocabulary(vocabulary).error().code, Code::kUnsupported);
  vocabulary = SmallVocabulary();
  vocabulary.merges.push_back("a zz");
  EXPECT_EQ(ReadGgufVocabulary(vocabulary).error().code, Code::kCorrupt);
  vocabulary = SmallVocabulary();
  vocabulary.token_types.pop_back();
  EXPECT_EQ(ReadGgufVocabulary(vocabulary).error().code, Code::kCorrupt);
}

// llama.cpp looks for the longest token first over the whole text, Hugging Face from left to right.
TEST(Tokenizer, OverlappingAddedTokens) {
  GgufVocabulary vocabulary = SmallVocabulary();
  for (const char* text : {"<x><", "<y>zz"}) {
    vocabulary.tokens.emplace_back(text);
    vocabulary.token_types.push_back(static_cast<int32_t>(TokenType::kUserDefined));
  }
  TokenizerSpec spec = *ReadGgufVocabulary(vocabulary);
  const int32_t longer = IdOf(spec, "<y>zz");
  const Ids longest = Make(spec)->Encode("<x><y>zz");
  EXPECT_EQ(longest.back(), longer);
  spec.longest_added_first = false;
  const Ids leftmost = Make(spec)->Encode("<x><y>zz");
  EXPECT_EQ(leftmost.front(), IdOf(spec, "<x><"));
  EXPECT_NE(leftmost.back(), longer);
}

TEST(Detokenizer, NeverSplitsACharacter) {
  const auto tokenizer = Make(SmallSpec());
  Detokenizer pieces(*tokenizer, false);
  const Ids ids = tokenizer->Encode("😀!");
  ASSERT_EQ(ids.size(), 5u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pieces.Push(ids[static_cast<size_t>(i)]), "");
  EXPECT_EQ(pieces.Push(ids[3]), "😀");
  EXPECT_EQ(pieces.Push(ids[0]), "");
  EXPECT_EQ(pieces.Push(ids[4]), "\uFFFD!");
  EXPECT_EQ(pieces.Push(ids[0]), "");
  EXPECT_EQ(pieces.Flush(), "\uFFFD");
  EXPECT_EQ(pieces.Flush(), "");
}

TEST(Detokenizer, JoinedPiecesEqualDecode) {
  const auto tokenizer = Make(SmallSpec());
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Ids ids;
    for (size_t i = 0; i < random() % 20; ++i) {
      ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer->VocabSize())));
    }
    for (const bool skip : {false, true}) {
      Detokenizer pieces(*tokenizer, skip);
      std::string joined;
      for (const int32_t id : ids) joined += pieces.Push(id);
      joined += pieces.Flush();
      EXPECT_EQ(joined, tokenizer->Decode(ids, skip));
    }
  }
}

}  // namespace
}  // namespace tandem::text

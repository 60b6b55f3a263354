#include "text/tokenizer_spec.h"

#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"

namespace tandem::text {
namespace {

TokenizerSpec Sample() {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "ab", "<|end|>"};
  spec.token_types = {TokenType::kNormal, TokenType::kNormal, TokenType::kNormal,
                      TokenType::kControl};
  spec.merges = {{0, 1, 2}};
  spec.scores = {0.5F, -1.0F, 0.0F, 3.0F};
  spec.model = {.kind = ModelKind::kBpe,
                .flags = TokenModel::kByteLevel,
                .continuing_prefix = "##",
                .word_suffix = "</w>",
                .max_word_chars = 100,
                .unk_id = 3};
  spec.added = {{3, AddedToken::kSpecial}};
  spec.longest_added_first = true;
  spec.normalizers = {{NormalizerKind::kPrepend, 1, 0, "", "_"}};
  spec.pre_tokenizers = {{PreTokenizerKind::kSplitRegex, 0, 1, "\\s", ""}};
  spec.decoders = {{DecoderKind::kReplaceText, 0, 0, "_", " "}};
  spec.prefix = {3};
  spec.suffix = {3, 2};
  spec.bos_id = 3;
  spec.eos_id = 3;
  spec.chat_template = "{{ messages }}";
  spec.named_templates = {{"tool_use", "{{ tools }}"}};
  return spec;
}

TEST(TokenizerSpec, ThereAndBack) {
  const auto bytes = Serialize(Sample());
  ASSERT_TRUE(bytes);
  const auto back = ParseTokenizerSpec(*bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == Sample());
  EXPECT_EQ(*Serialize(*back), *bytes);
}

// The digest is what workers and frontends agree on: it must not change within a version.
TEST(TokenizerSpec, BytesOfThisVersionAreFixed) {
  EXPECT_EQ(Hex(Sha256(std::string_view(*Serialize(Sample())))),
            "7dca20f6fdb8a826c884c25279a77eb349b57a16e7ec193ae1cba011f88b5c02");
}

TEST(TokenizerSpec, EveryCutAndAnyDamageIsSafe) {
  const std::string bytes = *Serialize(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseTokenizerSpec(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(ParseTokenizerSpec(bytes + "x"));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    if (const auto spec = ParseTokenizerSpec(damaged)) EXPECT_EQ(*Serialize(*spec), damaged);
  }
}

TEST(TokenizerSpec, AnotherVersionIsNamed) {
  std::string bytes = *Serialize(Sample());
  bytes[8] = 9;
  const auto spec = ParseTokenizerSpec(bytes);
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, Code::kIncompatible);
}

TEST(TokenizerSpec, RefusesWhatDoesNotFitTogether) {
  TokenizerSpec spec = Sample();
  spec.eos_id = 4;
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.token_types.pop_back();
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.scores.pop_back();
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.token_types[0] = static_cast<TokenType>(7);
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.merges[0].merged = 4;
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.prefix = {-1};
  EXPECT_FALSE(Serialize(spec));
  spec = Sample();
  spec.decoders[0].kind = static_cast<DecoderKind>(0);
  EXPECT_FALSE(Serialize(spec));
}

}  // namespace
}  // namespace tandem::text

#include "text/tokenizer_spec.h"

#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"

namespace tandem::text {
namespace {

TokenizerSpec Sample() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre_tokenizer = "smollm";
  spec.tokens = {"a", "b", "ab", "<|end|>"};
  spec.token_types = {TokenType::kNormal, TokenType::kNormal, TokenType::kNormal,
                      TokenType::kControl};
  spec.merges = {"a b"};
  spec.scores = {0.5F, -1.0F, 0.0F, 3.0F};
  spec.bos_id = 3;
  spec.eos_id = 3;
  spec.add_eos = true;
  spec.chat_template = "{{ messages }}";
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
            "3584c8244600aa8abede59ac5670b88e136de68b41047d806ba25a69c91793c1");
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
}

}  // namespace
}  // namespace tandem::text

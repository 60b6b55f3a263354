// The demo model's tokeniser against ids recorded with Hugging Face tokenizers.
#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/golden_file.h"
#include "text/tokenizer.h"

namespace tandem::text {
namespace {

constexpr char kHowToMake[] =
    " is absent: run tests/tools/make_tokenizer_artifact.py (it needs the Python package gguf)";

class TokenizerGolden : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = TestCacheFile(Name() + ".tokenizer");
    blob_ = ReadWholeFile(path);
    ASSERT_FALSE(blob_.empty()) << path << kHowToMake;
    cases_ = ReadWholeFile(TestCacheFile(Name() + ".cases"));
    ASSERT_FALSE(cases_.empty()) << TestCacheFile(Name() + ".cases") << kHowToMake;
    auto spec = ParseTokenizerSpec(blob_);
    ASSERT_TRUE(spec) << spec.error().message;
    spec_ = *spec;
    auto tokenizer = Tokenizer::Create(std::move(*spec));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = std::move(*tokenizer);
  }

  static std::string Name() {
    const char* name = std::getenv("TANDEM_TEST_TOKENIZER");
    return name == nullptr ? "smollm2" : name;
  }

  std::string blob_;
  std::string cases_;
  TokenizerSpec spec_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerGolden, SerialisedFormIsStable) {
  const auto again = Serialize(spec_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(*again == blob_);
}

TEST_F(TokenizerGolden, EveryRecordedTextBothWays) {
  GoldenReader reader(cases_);
  const uint32_t count = reader.U32();
  ASSERT_GT(count, 100u);
  for (uint32_t i = 0; i < count; ++i) {
    const std::string name = reader.Text();
    const std::string text = reader.Text();
    const std::vector<int32_t> ids = reader.Ids();
    const std::vector<int32_t> plain = reader.Ids();
    const std::string decoded = reader.Text();
    const std::string decoded_skip = reader.Text();
    EXPECT_EQ(tokenizer_->Encode(text), ids) << name;
    EXPECT_EQ(tokenizer_->Encode(text, {.add_special_tokens = false}), plain) << name;
    EXPECT_EQ(tokenizer_->Decode(ids, false), decoded) << name;
    EXPECT_EQ(tokenizer_->Decode(ids, true), decoded_skip) << name;

    Detokenizer pieces(*tokenizer_, false);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string piece = pieces.Push(id);
      EXPECT_TRUE(IsValidUtf8(piece)) << name;
      joined += piece;
    }
    joined += pieces.Flush();
    EXPECT_EQ(joined, decoded) << name;
  }
}

}  // namespace
}  // namespace tandem::text

// Real tokenizers of several formats against ids recorded with the libraries that own the format.
#include "text/golden_cases.h"
#include "text/sentencepiece.h"
#include "text/tekken.h"
#include "text/tokenizer_json.h"

namespace tandem::text {
namespace {

std::string Fixture(const std::string& name) {
  std::string bytes = ReadWholeFile(TestCacheFile(name));
  EXPECT_FALSE(bytes.empty()) << TestCacheFile(name) << kHowToPrepare;
  return bytes;
}

TEST(TokenizerGolden, DeepSeekTokenizerJson) {
  const auto spec = ReadTokenizerJson(Fixture("deepseek_v4.json"), "");
  ASSERT_TRUE(spec) << spec.error().message;
  ExpectRecordedIds("deepseek_v4", *spec, false);
}

// Every step that a tokenizer.json may have, in small tokenizers made for this.
TEST(TokenizerGolden, EveryStepOfATokenizerJson) {
  const std::string bytes = Fixture("small_tokenizers.cases");
  GoldenReader reader(bytes);
  const uint32_t count = reader.U32();
  ASSERT_GT(count, 30U);
  for (uint32_t i = 0; i < count; ++i) {
    const std::string name = reader.Text();
    const std::string json = reader.Text();
    const auto spec = ReadTokenizerJson(json, "");
    ASSERT_TRUE(spec) << name << ": " << spec.error().message;
    ExpectCases(reader, name, *spec, false);
    if (HasFatalFailure()) return;
  }
}

TEST(TokenizerGolden, MistralSentencePiece) {
  for (const char* name : {"spm-mistral-v1", "spm-mistral-v3", "spm-mistral-v7"}) {
    const auto spec = ReadSentencePiece(Fixture(std::string(name) + ".model"));
    ASSERT_TRUE(spec) << spec.error().message;
    ExpectRecordedIds(name, *spec, true);
  }
}

TEST(TokenizerGolden, MistralTekken) {
  const auto spec = ReadTekken(Fixture("tekken-240911.json"));
  ASSERT_TRUE(spec) << spec.error().message;
  ExpectRecordedIds("tekken-240911", *spec, true);
}

}  // namespace
}  // namespace tandem::text

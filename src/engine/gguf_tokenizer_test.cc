// The demo model's tokenizer against recorded ids.
#include "engine/gguf_tokenizer.h"

#include "model/gguf.h"
#include "text/golden_cases.h"

namespace tandem::engine {
namespace {

TEST(GgufTokenizer, RecordedIdsOfTheDemoModel) {
  const std::string path = text::TestCacheFile("../models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const auto file = model::GgufFile::Open(path);
  ASSERT_TRUE(file) << file.error().message << text::kHowToPrepare;
  auto metadata = model::ReadTokenizerMetadata((*file)->view());
  ASSERT_TRUE(metadata) << metadata.error().message;
  const auto spec = MakeTokenizer(*std::move(metadata));
  ASSERT_TRUE(spec) << spec.error().message;
  text::ExpectRecordedIds("smollm2", *spec, false);
}

}  // namespace
}  // namespace tandem::engine

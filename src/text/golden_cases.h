// Recorded ids of one tokenizer held against Tandem's. Tests only.
#ifndef TANDEM_TEXT_GOLDEN_CASES_H_
#define TANDEM_TEXT_GOLDEN_CASES_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/golden_file.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem::text {

constexpr char kHowToPrepare[] = " is absent: run tests/tools/prepare_test_data.py";

// The cases that come next, more than 20. `raw`: recorded without special tokens, neither added nor
// looked for.
inline void ExpectCases(GoldenReader& reader, const std::string& name, const TokenizerSpec& spec,
                        bool raw) {
  const auto blob = Serialize(spec);
  ASSERT_TRUE(blob) << blob.error().message;
  auto parsed = ParseTokenizerSpec(*blob);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(*parsed == spec);
  const auto made = Tokenizer::Create(*std::move(parsed));
  ASSERT_TRUE(made) << made.error().message;
  const Tokenizer& tokenizer = **made;
  const uint32_t count = reader.U32();
  ASSERT_GT(count, 20U);
  for (uint32_t i = 0; i < count; ++i) {
    const std::string label = name + " " + reader.Text();
    const std::string text = reader.Text();
    const std::vector<int32_t> ids = reader.Ids();
    const std::vector<int32_t> plain = reader.Ids();
    const std::string decoded = reader.Text();
    const std::string decoded_skip = reader.Text();
    if (!raw) EXPECT_EQ(tokenizer.Encode(text), ids) << label;
    EXPECT_EQ(tokenizer.Encode(text, {.add_special_tokens = false, .parse_special = !raw}), plain)
        << label;
    EXPECT_EQ(tokenizer.Decode(ids, false), decoded) << label;
    EXPECT_EQ(tokenizer.Decode(ids, true), decoded_skip) << label;
    Detokenizer pieces(tokenizer, false);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string piece = pieces.Push(id);
      EXPECT_TRUE(IsValidUtf8(piece)) << label;
      joined += piece;
    }
    EXPECT_EQ(joined + pieces.Flush(), decoded) << label;
  }
}

// CACHE/text/NAME.cases
inline void ExpectRecordedIds(const std::string& name, const TokenizerSpec& spec, bool raw) {
  const std::string bytes = ReadWholeFile(TestCacheFile(name + ".cases"));
  ASSERT_FALSE(bytes.empty()) << TestCacheFile(name + ".cases") << kHowToPrepare;
  GoldenReader reader(bytes);
  ExpectCases(reader, name, spec, raw);
}

}  // namespace tandem::text

#endif  // TANDEM_TEXT_GOLDEN_CASES_H_

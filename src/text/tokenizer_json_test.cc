// What a model's folder may hold, and what is wrong with it.
#include "text/tokenizer_json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/sentencepiece.h"
#include "text/tekken.h"
#include "text/tokenizer.h"
#include "text/tokenizer_folder.h"

namespace tandem::text {
namespace {

using Ids = std::vector<int32_t>;

// Letters, a few merges, byte tokens for two bytes, two added tokens.
std::string SmallJson() {
  return R"({"added_tokens": [
      {"id": 0, "content": "<s>", "special": true}, {"id": 99, "content": "<new>"}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "a",
      "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "_": 4, "<0xC3>": 5, "<0xA9>": 6},
      "merges": ["a b"]}})";
}

std::unique_ptr<Tokenizer> Make(const Result<TokenizerSpec>& spec) {
  EXPECT_TRUE(spec) << spec.error().message;
  auto tokenizer = Tokenizer::Create(*spec);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TEST(TokenizerJson, AddedTokensGetTheirIdAsInHuggingFace) {
  const auto tokenizer = Make(ReadTokenizerJson(SmallJson(), ""));
  EXPECT_EQ(tokenizer->Encode("<s>ab<new> é"), (Ids{0, 3, 7, 4, 5, 6}));
  EXPECT_EQ(tokenizer->VocabSize(), 8);
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(7));
}

TEST(TokenizerJson, NamesAndAffixesOfItsConfig) {
  const auto read = [](const std::string& config) {
    const auto spec = ReadTokenizerJson(SmallJson(), config);
    EXPECT_TRUE(spec) << spec.error().message;
    return *spec;
  };
  TokenizerSpec spec = read(R"({"model_max_length": 1000000000000000019884624838656,
      "note": "\"1000000000000000019884624838656", "bos_token": "<s>",
      "eos_token": {"content": "<new>"}})");
  EXPECT_EQ(spec.bos_id, 0);
  EXPECT_EQ(spec.eos_id, 7);
  EXPECT_TRUE(spec.prefix.empty());
  spec = read(R"({"bos_token": "<s>", "tokenizer_class": "LlamaTokenizerFast"})");
  EXPECT_EQ(spec.prefix, Ids{0});
  spec = read(R"({"bos_token": "<s>", "eos_token": "<new>", "add_bos_token": false,
                  "add_eos_token": true})");
  EXPECT_TRUE(spec.prefix.empty());
  EXPECT_EQ(spec.suffix, Ids{7});
  spec = read(R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                    {"name": "default", "template": "d"}],
                  "added_tokens_decoder": {"12": {"content": "<more>", "special": true}}})");
  EXPECT_EQ(spec.chat_template, "d");
  EXPECT_EQ(spec.named_templates, (std::vector<NamedTemplate>{{"tool_use", "t"}}));
  EXPECT_EQ(spec.tokens.at(8), "<more>");
}

TEST(TokenizerJson, SaysWhatIsWrong) {
  const auto error = [](std::string json, const char* from, const char* to) {
    const size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const auto spec = ReadTokenizerJson(json.replace(at, std::string(from).size(), to), "");
    EXPECT_FALSE(spec) << to;
    return spec ? std::string() : spec.error().message;
  };
  const std::string json = SmallJson();
  EXPECT_NE(error(json, "{", "").find("JSON"), std::string::npos);
  EXPECT_NE(error(json, "\"BPE\"", "\"Magic\"").find("Magic"), std::string::npos);
  EXPECT_NE(error(json, "\"Replace\"", "\"Reverse\"").find("Reverse"), std::string::npos);
  EXPECT_NE(error(json, "a b", "a z").find("'z'"), std::string::npos);
  EXPECT_NE(error(json, "\"a\": 1", "\"a\": 99999999").find("model.vocab"), std::string::npos);
  EXPECT_NE(error(json, "\"vocab\"", "\"words\"").find("model.vocab"), std::string::npos);
  EXPECT_FALSE(ReadTokenizerJson(json, "{"));
}

TEST(TokenizerJson, EveryCutIsSafe) {
  const std::string json = SmallJson();
  for (size_t size = 0; size < json.size(); ++size) {
    EXPECT_FALSE(ReadTokenizerJson(json.substr(0, size), "")) << size;
  }
}

// Streams come out as characters complete; the library judges a run of byte tokens when it ends.
TEST(Detokenizer, ByteTokens) {
  const auto tokenizer = Make(ReadTokenizerJson(SmallJson(), ""));
  Detokenizer pieces(*tokenizer, false);
  EXPECT_EQ(pieces.Push(5), "");
  EXPECT_EQ(pieces.Push(6), "é");
  EXPECT_EQ(pieces.Push(5), "");
  EXPECT_EQ(pieces.Push(4), "\uFFFD ");
  EXPECT_EQ(pieces.Push(6), "\uFFFD");
  EXPECT_EQ(pieces.Flush(), "");
  EXPECT_EQ(tokenizer->Decode(Ids{5, 6, 5}, false), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer->Decode(Ids{5, 6, 4, 5}, false), "é \uFFFD");
}

TEST(TokenizerFolder, FindsItsFiles) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tandem_tokenizer_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  auto none = ReadTokenizerFolder(folder);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_NE(none.error().message.find(folder.string()), std::string::npos);
  EXPECT_NE(none.error().message.find("tokenizer.model"), std::string::npos);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  write("tokenizer.json", SmallJson());
  write("tokenizer_config.json", R"({"eos_token": "<new>", "chat_template": "config"})");
  write("special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": "b"})");
  auto spec = ReadTokenizerFolder(folder);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->bos_id, 0);
  EXPECT_EQ(spec->eos_id, 7);
  EXPECT_EQ(spec->chat_template, "config");
  write("chat_template.jinja", "file");
  EXPECT_EQ(ReadTokenizerFolder(folder)->chat_template, "file");
  write("tokenizer_config.json", "{");
  EXPECT_NE(ReadTokenizerFolder(folder).error().message.find("tokenizer_config.json"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(SentencePiece, RefusesWhatIsNone) {
  for (const std::string bytes : {"", "x", "\x0a\x02\x0a", "{\"model\": 1}"}) {
    const auto spec = ReadSentencePiece(bytes);
    ASSERT_FALSE(spec);
    EXPECT_EQ(spec.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(ReadTekken("{}"));
}

}  // namespace
}  // namespace tandem::text

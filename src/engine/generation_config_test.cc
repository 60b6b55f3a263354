#include "engine/generation_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tandem::engine {
namespace {

namespace fs = std::filesystem;

class GenerationConfigTest : public testing::Test {
 protected:
  GenerationConfigTest() {
    folder_ = fs::temp_directory_path() / fmt::format("generation_config_{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "other");
  }
  ~GenerationConfigTest() override { fs::remove_all(folder_); }
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  GenerationConfig Read(const std::string& choice, const std::string& overrides = {}) {
    const auto config = ReadGenerationConfig(
        {.choice = choice, .overrides = overrides, .model_folder = folder_.string()});
    EXPECT_TRUE(config) << config.error().message;
    return config ? *config : GenerationConfig();
  }
  fs::path folder_;
};

TEST_F(GenerationConfigTest, TheModelsOwn) {
  EXPECT_EQ(Read("auto").defaults, "");
  Put("config.json", R"({"eos_token_id":2})");
  EXPECT_EQ(Read("auto").eos_ids, std::vector<int64_t>{2});
  Put("config.json", R"({"text_config":{"eos_token_id":[1,106]}})");
  EXPECT_EQ(Read("auto").eos_ids, (std::vector<int64_t>{1, 106}));
  Put("generation_config.json",
      R"({"eos_token_id":[7,8],"do_sample":true,"temperature":0.6,"top_k":20,"top_p":null,
          "repetition_penalty":"x","max_new_tokens":2048})");
  const GenerationConfig own = Read("auto");
  EXPECT_EQ(own.defaults, R"({"temperature":0.6,"top_k":20,"max_new_tokens":2048})");
  EXPECT_EQ(own.eos_ids, (std::vector<int64_t>{7, 8}));
  // Neutral settings; an answer ends where the model ends it all the same.
  EXPECT_EQ(Read("vllm").defaults, "");
  EXPECT_EQ(Read("vllm").eos_ids, own.eos_ids);
}

TEST_F(GenerationConfigTest, OverridesAndOtherFolders) {
  Put("generation_config.json", R"({"temperature":0.6,"top_k":20})");
  EXPECT_EQ(Read("auto", R"({"top_k":5,"min_p":0.1,"temperature":null,"other":1})").defaults,
            R"({"top_k":5,"min_p":0.1})");
  EXPECT_EQ(Read("vllm", R"({"top_p":0.9})").defaults, R"({"top_p":0.9})");
  Put("other/generation_config.json", R"({"top_p":0.5,"eos_token_id":9})");
  const GenerationConfig other = Read((folder_ / "other").string());
  EXPECT_EQ(other.defaults, R"({"top_p":0.5})");
  EXPECT_EQ(other.eos_ids, std::vector<int64_t>{9});
}

TEST_F(GenerationConfigTest, WhatIsWrongIsNamed) {
  const auto absent =
      ReadGenerationConfig({.choice = folder_.string(), .overrides = {}, .model_folder = {}});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().param, "--generation-config");
  Put("generation_config.json", "[1]");
  const auto damaged =
      ReadGenerationConfig({.choice = "auto", .overrides = {}, .model_folder = folder_.string()});
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.error().message.find("generation_config.json: not a JSON object"),
            std::string::npos);
  EXPECT_TRUE(CheckGenerationOverrides(R"({"top_k":5,"future":"x"})"));
  for (const char* bad : {"{", "[]", R"({"top_k":"5"})"}) {
    const auto refused = CheckGenerationOverrides(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().param, "--override-generation-config");
  }
}

}  // namespace
}  // namespace tandem::engine

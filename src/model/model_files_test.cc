#include "model/model_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tandem::model {
namespace {

namespace fs = std::filesystem;
using Kind = ModelFiles::Kind;

class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() {
    folder_ = fs::temp_directory_path() / fmt::format("model_files_{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ModelFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Put(const std::string& name, const std::string& text = "x") {
    std::ofstream(folder_ / name) << text;
  }
  void PutIndex(const std::string& map) {
    Put("model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
  }
  void ExpectError(const std::string& path, std::string_view part) {
    const auto found = FindModelFiles(path);
    ASSERT_FALSE(found) << found->weights.size();
    EXPECT_NE(found.error().message.find(part), std::string::npos) << found.error().message;
  }
  void ExpectFolderError(std::string_view part) { ExpectError(folder_.string(), part); }

  fs::path folder_;
};

TEST_F(ModelFilesTest, OneGgufFile) {
  Put("m.gguf");
  const auto found = FindModelFiles(Path("m.gguf"));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->kind, Kind::kGguf);
  EXPECT_EQ(found->folder, folder_.string());
  EXPECT_EQ(found->weights, std::vector<std::string>{Path("m.gguf")});
  // A folder that holds nothing else is that model.
  Put("README.md");
  Put("mmproj-m.gguf");
  EXPECT_EQ(FindModelFiles(folder_.string())->weights, found->weights);
  Put("n.gguf");
  ExpectFolderError("holds 2 GGUF models ('m.gguf', 'n.gguf'");
}

TEST_F(ModelFilesTest, SplitGguf) {
  for (int part = 1; part <= 3; ++part) Put(SplitFileName("m", part, 3));
  const std::vector<std::string> all = {
      Path("m-00001-of-00003.gguf"), Path("m-00002-of-00003.gguf"), Path("m-00003-of-00003.gguf")};
  EXPECT_EQ(FindModelFiles(all[0])->weights, all);
  EXPECT_EQ(FindModelFiles(all[2])->weights, all);
  EXPECT_EQ(FindModelFiles(folder_.string())->weights, all);
  fs::remove(all[1]);
  ExpectError(all[0], "m-00002-of-00003.gguf: part 2 of 3");
}

TEST_F(ModelFilesTest, SplitNames) {
  const auto split = ParseSplitName("a-b-00002-of-00010.gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stem, "a-b");
  EXPECT_EQ(split->part, 2);
  EXPECT_EQ(split->parts, 10);
  EXPECT_EQ(SplitFileName("a-b", 2, 10), "a-b-00002-of-00010.gguf");
  for (const char* other :
       {"m.gguf", "-00001-of-00001.gguf", "m-0001-of-00002.gguf", "m-00003-of-00002.gguf",
        "m-00000-of-00002.gguf", "m-00001-of-00002.bin", "m-+0001-of-00002.gguf"})
    EXPECT_FALSE(ParseSplitName(other)) << other;
}

TEST_F(ModelFilesTest, Folder) {
  Put("model.safetensors");
  ExpectFolderError("config.json is missing");
  Put("config.json", "{}");
  auto found = FindModelFiles(folder_.string());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->kind, Kind::kFolder);
  EXPECT_EQ(found->weights, std::vector<std::string>{Path("model.safetensors")});
  // The index wins; its order is that of the tensors, ours that of the names.
  PutIndex(R"({"a":"s2.safetensors","b":"s1.safetensors","c":"s2.safetensors"})");
  ExpectFolderError("'s1.safetensors', named by model.safetensors.index.json, is missing");
  Put("s1.safetensors");
  Put("s2.safetensors");
  found = FindModelFiles(folder_.string());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->weights,
            (std::vector<std::string>{Path("s1.safetensors"), Path("s2.safetensors")}));
}

TEST_F(ModelFilesTest, DamagedIndex) {
  Put("config.json", "{}");
  PutIndex("[]");
  ExpectFolderError("weight_map");
  PutIndex("{}");
  ExpectFolderError("weight_map");
  PutIndex(R"({"a":1})");
  ExpectFolderError("the file of tensor 'a' is not a name");
  PutIndex(R"({"a":"../../etc/passwd"})");
  ExpectFolderError("'../../etc/passwd', which is no plain name");
  PutIndex(R"({"a":"..")");
  ExpectFolderError("model.safetensors.index.json");
}

TEST_F(ModelFilesTest, WhatIsMissingIsNamed) {
  ExpectError(Path("absent"), "no such file or folder");
  ExpectFolderError("no weights: neither model.safetensors");
  Put("config.json", "{}");
  Put("pytorch_model.bin");
  ExpectFolderError("pickled ('pytorch_model.bin')");
  Put("model-00001-of-00002.safetensors");
  ExpectFolderError("'model-00001-of-00002.safetensors', but neither");
  ExpectError(Path("model-00001-of-00002.safetensors"), "write the folder");
}

}  // namespace
}  // namespace tandem::model

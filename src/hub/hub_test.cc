// What can be told without a hub: names, settings, choices, the cache's layout. The rest is in
// tests/e2e/test_hub.py, against a server that plays the hub.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "hub/model_id.h"
#include "hub/repo_cache.h"
#include "hub/resolve.h"
#include "hub/select.h"
#include "hub/settings.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Environment With(std::map<std::string, std::string, std::less<>> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(ModelId, Names) {
  const auto plain = ParseModelId("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repo, "Qwen/Qwen3-0.6B");
  const auto full = ParseModelId("org/name@v1.0/x:sub/model-00001-of-00002.gguf");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->repo, "org/name");
  EXPECT_EQ(full->revision, "v1.0/x");
  EXPECT_EQ(full->file, "sub/model-00001-of-00002.gguf");
  EXPECT_TRUE(full->NamesFile());
  EXPECT_FALSE(ParseModelId("org/name:Q4_K_M")->NamesFile());
  for (const char* bad :
       {"name", "", "a/b/c", "../x", "a/..", "a/b--c", "-a/b", "a/b.", "a /b", "a/b@", "a/b@../x",
        "a/b:", "a/b:../x.gguf", "a/b:/etc/x.gguf", "a/b:x\\y.gguf", "a/b@-\n"})
    EXPECT_FALSE(ParseModelId(bad)) << bad;
  EXPECT_FALSE(ParseModelId("o/" + std::string(97, 'a')));
}

TEST(ModelId, PathsOfAServer) {
  for (const char* good : {"a", "a/b.json", ".gitattributes", "a b/c"})
    EXPECT_TRUE(IsRepoPath(good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb"})
    EXPECT_FALSE(IsRepoPath(bad)) << bad;
  EXPECT_TRUE(IsBlobName("abc-1.d"));
  for (const char* bad : {"", ".x", "a/b", "..", "a b"}) EXPECT_FALSE(IsBlobName(bad)) << bad;
}

TEST(HubSettings, VariablesOfHuggingFace) {
  const auto plain = ReadSettings(With({{"HOME", "/h"}}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->endpoint.ToString(), "https://huggingface.co");
  EXPECT_EQ(plain->cache, "/h/.cache/huggingface/hub");
  EXPECT_FALSE(plain->offline);
  const auto other = ReadSettings(With({{"HOME", "/h"},
                                        {"HF_ENDPOINT", "http://127.0.0.1:81/x/"},
                                        {"HF_HOME", "~/hf"},
                                        {"HF_TOKEN", " abc\n"},
                                        {"HF_HUB_OFFLINE", "True"}}));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->endpoint.port, 81);
  EXPECT_EQ(other->endpoint.target, "/x");
  EXPECT_EQ(other->cache, "/h/hf/hub");
  EXPECT_EQ(other->token, "abc");
  EXPECT_TRUE(other->offline);
  EXPECT_EQ(ReadSettings(With({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}}))->cache, "/c");
  EXPECT_EQ(ReadSettings(With({{"XDG_CACHE_HOME", "/x"}}))->cache, "/x/huggingface/hub");
  EXPECT_EQ(ReadSettings(With({{"HF_ENDPOINT", "ftp://x"}})).error().param, "HF_ENDPOINT");
  EXPECT_EQ(ReadSettings(With({{"HF_TOKEN", "a\r\nb"}})).error().param, "HF_TOKEN");
}

std::string Choice(const Names& files, std::string_view name) {
  const auto id = ParseModelId(name);
  EXPECT_TRUE(id) << name;
  const auto selection = SelectFiles(files, *id);
  return selection ? fmt::format("{}: {}", selection->entry, fmt::join(selection->files, " "))
                   : selection.error().message;
}

TEST(HubSelect, Folders) {
  const Names files = {".gitattributes",
                       "README.md",
                       "config.json",
                       "generation_config.json",
                       "model.safetensors",
                       "onnx/model.onnx",
                       "original/consolidated.pth",
                       "pytorch_model.bin",
                       "tokenizer.json",
                       "x.gguf"};
  EXPECT_EQ(Choice(files, "o/n"),
            ": config.json generation_config.json model.safetensors tokenizer.json");
  Names sharded = files;
  sharded.emplace_back("model.safetensors.index.json");
  const auto selection = SelectFiles(sharded, *ParseModelId("o/n"));
  ASSERT_TRUE(selection);
  EXPECT_EQ(selection->index, "model.safetensors.index.json");
  EXPECT_EQ(selection->files.back(), "tokenizer.json") << "shards are what the index names";
  EXPECT_EQ(*ShardsOfIndex(R"({"weight_map":{"a":"s2","b":"s1","c":"s2"}})"), (Names{"s1", "s2"}));
  for (const char* bad : {"", "{}", R"({"weight_map":{}})", R"({"weight_map":{"a":"../x"}})",
                          R"({"weight_map":{"a":"b/c"}})", R"({"weight_map":{"a":1}})"})
    EXPECT_FALSE(ShardsOfIndex(bad)) << bad;
  EXPECT_NE(Choice({"config.json", "pytorch_model.bin"}, "o/n").find("pickled"), std::string::npos);
  EXPECT_NE(Choice({"README.md"}, "o/n").find("no model"), std::string::npos);
}

TEST(HubSelect, Gguf) {
  const Names files = {"BF16/m-BF16-00001-of-00002.gguf",
                       "BF16/m-BF16-00002-of-00002.gguf",
                       "m-Q4_K_M.gguf",
                       "m-Q4_K_S.gguf",
                       "m-Q6_K.gguf",
                       "m-Q6_K_L.gguf",
                       "mmproj-m-Q6_K.gguf"};
  EXPECT_EQ(Choice(files, "o/n"), "m-Q4_K_M.gguf: m-Q4_K_M.gguf");
  EXPECT_EQ(Choice(files, "o/n:q4_k_s"), "m-Q4_K_S.gguf: m-Q4_K_S.gguf");
  EXPECT_EQ(Choice(files, "o/n:Q6_K"), "m-Q6_K.gguf: m-Q6_K.gguf");
  EXPECT_EQ(Choice(files, "o/n:BF16"),
            "BF16/m-BF16-00001-of-00002.gguf: BF16/m-BF16-00001-of-00002.gguf "
            "BF16/m-BF16-00002-of-00002.gguf");
  EXPECT_EQ(Choice(files, "o/n:BF16/m-BF16-00002-of-00002.gguf"), Choice(files, "o/n:BF16"));
  EXPECT_NE(Choice(files, "o/n:Q2_K").find("no model of the quantisation Q2_K"), std::string::npos);
  EXPECT_NE(Choice(files, "o/n:x.gguf").find("no file 'x.gguf'; it has: BF16/m"),
            std::string::npos);
  EXPECT_EQ(Choice({"m.Q8_0.gguf"}, "o/n"), "m.Q8_0.gguf: m.Q8_0.gguf");
  EXPECT_NE(Choice({"a-Q4_K_M.gguf", "b-Q4_K_M.gguf"}, "o/n").find("several models"),
            std::string::npos);
  EXPECT_NE(Choice({"model.safetensors"}, "o/n:Q4_K_M").find("holds no .gguf file"),
            std::string::npos);
}

class HubCache : public testing::Test {
 protected:
  HubCache() : folder_(fs::temp_directory_path() / fmt::format("hub_cache_{}", getpid())) {
    fs::remove_all(folder_);
  }
  ~HubCache() override { fs::remove_all(folder_); }
  Result<ResolvedModel> Resolved(const std::string& model, const std::string& revision = {}) {
    ResolveOptions options;
    options.model = model;
    options.revision = revision;
    options.environment = With({{"HF_HUB_CACHE", folder_.string()}, {"HF_HUB_OFFLINE", "1"}});
    return Resolve(options);
  }
  void Put(const RepoCache& cache, const std::string& path, const std::string& etag,
           const std::string& text = "x") {
    fs::create_directories(fs::path(cache.BlobPath(etag)).parent_path());
    std::ofstream(cache.BlobPath(etag)) << text;
    const auto linked = cache.Link(kCommit, path, etag);
    EXPECT_TRUE(linked) << linked.error().message;
  }
  static constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";
  fs::path folder_;
};

TEST_F(HubCache, FindsWhatIsCompleteWithoutTheHub) {
  const RepoCache cache(folder_.string(), "org/name");
  const auto absent = Resolved("org/name");
  ASSERT_FALSE(absent);
  for (const char* part : {"HF_HUB_OFFLINE", "models--org--name", "hf download"})
    EXPECT_NE(absent.error().message.find(part), std::string::npos) << absent.error().message;
  Put(cache, "config.json", "e1");
  Put(cache, "tokenizer.json", "e2");
  Put(cache, "model.safetensors.index.json", "e3",
      R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  Put(cache, "model-1.safetensors", "e4");
  ASSERT_TRUE(cache.WriteRef("main", kCommit));
  EXPECT_FALSE(Resolved("org/name")) << "a shard is missing";
  Put(cache, "model-2.safetensors", "e5");
  auto found = Resolved("org/name");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, cache.SnapshotPath(kCommit));
  EXPECT_EQ(found->name, "org/name");
  EXPECT_TRUE(found->from_hub);
  EXPECT_TRUE(fs::is_symlink(found->path + "/config.json"));
  EXPECT_EQ(Resolved("org/name", std::string(kCommit))->path, found->path);
  EXPECT_FALSE(Resolved("org/name", "v2"));
  fs::remove(cache.BlobPath("e2"));
  EXPECT_FALSE(Resolved("org/name")) << "its link leads nowhere";
}

TEST_F(HubCache, GgufFilesInFolders) {
  const RepoCache cache(folder_.string(), "org/name");
  Put(cache, "sub/m-Q8_0-00001-of-00002.gguf", "e1");
  ASSERT_TRUE(cache.WriteRef("v/1", kCommit));
  EXPECT_FALSE(Resolved("org/name@v/1:Q8_0")) << "a part is missing";
  Put(cache, "sub/m-Q8_0-00002-of-00002.gguf", "e2");
  const auto found = Resolved("org/name@v/1:Q8_0");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, cache.SnapshotPath(kCommit) + "/sub/m-Q8_0-00001-of-00002.gguf");
}

TEST_F(HubCache, PathsAndMistakes) {
  fs::create_directories(folder_);
  const std::string file = (folder_ / "m.gguf").string();
  std::ofstream(file) << "x";
  EXPECT_EQ(Resolved(file)->path, file);
  EXPECT_FALSE(Resolved(file)->from_hub);
  EXPECT_EQ(Resolved(folder_.string())->path, folder_.string());
  EXPECT_EQ(Resolved(file, "v1").error().param, "--revision");
  for (const char* bad : {"/no/such", "no-such.gguf", "./org/name", "org/name.gguf", "x"}) {
    const auto refused = Resolved(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find("no such file or folder"), std::string::npos);
  }
  EXPECT_EQ(Resolved("org/name@v1", "v2").error().param, "--revision");
  EXPECT_EQ(Resolved("org/name", "../../x").error().param, "--revision");
}

}  // namespace
}  // namespace tandem::hub

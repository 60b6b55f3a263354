#include "model/packed_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/model.h"
#include "model/test_team.h"
#include "model/tiny_gguf.h"
#include "model/weight_layout.h"
#include "model/weights_digest.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

class PackedCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / fmt::format("packed_cache_test-{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = TinyGguf({}, TensorType::kQ4_1, 1).WriteTo((folder_ / "model.gguf").string());
    cache_ = (folder_ / "cache").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Model> Load(std::vector<double>* fractions = nullptr) {
    LoadOptions options{.path = path_, .cache_dir = cache_};
    if (fractions != nullptr) options.progress = [fractions](double f) { fractions->push_back(f); };
    auto loaded = Model::Load(options, team_);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  std::vector<fs::path> PackedFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(cache_) / "packed"))
      files.push_back(entry.path());
    return files;
  }

  TestTeam team_{2};
  fs::path folder_;
  std::string path_;
  std::string cache_;
};

TEST_F(PackedCacheTest, SecondStartMapsTheFileOfTheFirst) {
  std::vector<double> first;
  Load(&first);
  EXPECT_GT(first.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  EXPECT_EQ(first.back(), 1.0);
  ASSERT_EQ(PackedFiles().size(), 1U);
  struct stat folder{};
  ASSERT_EQ(0, stat((fs::path(cache_) / "packed").c_str(), &folder));
  EXPECT_EQ(folder.st_mode & 0777U, 0700U);
  std::vector<double> second;
  Load(&second);
  EXPECT_EQ(second.size(), 1U);
  EXPECT_EQ(PackedFiles().size(), 1U);
}

TEST_F(PackedCacheTest, CachedAndUncachedImagesAreEqual) {
  const auto checkpoint = Checkpoint::Open(path_, "");
  ASSERT_TRUE(checkpoint);
  const Result<WeightLayout> laid_out = LayOutWeights(**checkpoint);
  ASSERT_TRUE(laid_out) << laid_out.error().message;
  const WeightLayout& layout = *laid_out;
  auto memory = LoadPacked(layout.plan, "key", "", team_, {});
  auto written = LoadPacked(layout.plan, "key", cache_, team_, {});
  auto mapped = LoadPacked(layout.plan, "key", cache_, team_, {});
  ASSERT_TRUE(memory && written && mapped);
  EXPECT_FALSE(written->from_cache);
  EXPECT_TRUE(mapped->from_cache);
  EXPECT_EQ(0, std::memcmp(memory->data, written->data, layout.plan.bytes));
  EXPECT_EQ(0, std::memcmp(memory->data, mapped->data, layout.plan.bytes));
}

TEST_F(PackedCacheTest, DamagedFilesAreReplaced) {
  Load();
  const fs::path packed = PackedFiles().at(0);
  const auto size = fs::file_size(packed);
  fs::resize_file(packed, size - 1);
  Load();
  EXPECT_EQ(fs::file_size(packed), size);
  std::fstream(packed, std::ios::in | std::ios::out | std::ios::binary) << "something else";
  std::vector<double> fractions;
  Load(&fractions);
  EXPECT_GT(fractions.size(), 2U);
  EXPECT_EQ(PackedFiles().size(), 1U);
}

TEST_F(PackedCacheTest, AFlippedBitAnywhereIsNoticed) {
  const auto flip = [&](uintmax_t at) {
    std::fstream file(PackedFiles().at(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  };
  Load();
  const uintmax_t size = fs::file_size(PackedFiles().at(0));
  for (const uintmax_t at : {uintmax_t{4096}, size / 2, size - 1}) {
    flip(at);
    std::vector<double> damaged;
    Load(&damaged);
    EXPECT_GT(damaged.size(), 2U) << at;
    std::vector<double> repaired;
    Load(&repaired);
    EXPECT_EQ(repaired.size(), 1U) << at;
  }
}

TEST_F(PackedCacheTest, AFolderThatCannotBeMadeIsNoObstacle) {
  std::ofstream(folder_ / "file") << "not a folder";
  cache_ = (folder_ / "file" / "cache").string();
  EXPECT_NE(Load(), nullptr);
}

TEST_F(PackedCacheTest, TheLongestUnusedFilesGoFirst) {
  const auto now = fs::file_time_type::clock::now();
  for (int age = 0; age < 4; ++age) {
    const fs::path path = folder_ / ("file" + std::to_string(age) + ".pack");
    std::ofstream(path) << std::string(100, 'x');
    fs::last_write_time(path, now - std::chrono::hours(age));
  }
  std::ofstream(folder_ / "other") << "not a packed file";
  const auto exists = [&](int age) {
    return fs::exists(folder_ / ("file" + std::to_string(age) + ".pack"));
  };
  TrimPacked(folder_.string(), (folder_ / "file3.pack").string(), 250);
  EXPECT_TRUE(exists(0) && exists(3));
  EXPECT_FALSE(exists(1) || exists(2));
  TrimPacked(folder_.string(), (folder_ / "file3.pack").string(), 0);
  EXPECT_TRUE(exists(3) && fs::exists(folder_ / "other"));
}

TEST_F(PackedCacheTest, DigestFollowsTheContent) {
  const auto digest = [&] {
    const auto file = GgufFile::Open(path_);
    const auto result = WeightsDigestOf((*file)->bytes(), path_, cache_);
    EXPECT_TRUE(result);
    const auto uncached = WeightsDigestOf((*file)->bytes(), path_, "");
    EXPECT_EQ(*result, *uncached);
    return *result;
  };
  const std::string first = digest();
  EXPECT_EQ(digest(), first);
  TinyGguf({}, TensorType::kQ4_1, 2).WriteTo(path_);
  fs::last_write_time(path_, fs::last_write_time(path_) + std::chrono::seconds(1));
  EXPECT_NE(digest(), first);
}

}  // namespace
}  // namespace tandem::model

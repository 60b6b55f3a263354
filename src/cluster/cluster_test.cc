#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cluster/file_discovery.h"
#include "cluster/instance_file.h"
#include "cluster/mem_discovery.h"
#include "rt/sim_runtime.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

wire::Instance MakeInstance(uint64_t id, std::string ns = "dynamo") {
  wire::Instance instance;
  instance.id = id;
  instance.ns = std::move(ns);
  instance.component = "backend";
  instance.endpoint = "generate";
  instance.address = "127.0.0.1:1";
  instance.card.name = "tiny";
  return instance;
}

// What a watch has seen last, and how often it was called.
struct Seen {
  std::vector<uint64_t> ids;
  int calls = 0;
  Discovery::OnChange Callback() {
    return [this](const std::vector<wire::Instance>& live) {
      ids.clear();
      for (const auto& instance : live) ids.push_back(instance.id);
      ++calls;
    };
  }
};

using Ids = std::vector<uint64_t>;

TEST(MemDiscovery, TellsAtOnceAndAfterEachChange) {
  rt::SimRuntime sim(1);
  MemHub hub(sim);
  auto discovery = hub.Open(sim);
  Seen seen;
  auto watch = discovery->WatchInstances("dynamo", seen.Callback());
  sim.RunFor(milliseconds(1));
  EXPECT_EQ(seen.calls, 1);
  EXPECT_TRUE(seen.ids.empty());
  auto b = discovery->Register(MakeInstance(2));
  auto a = discovery->Register(MakeInstance(1));
  auto other = discovery->Register(MakeInstance(3, "elsewhere"));
  ASSERT_TRUE(a && b && other);
  EXPECT_FALSE(discovery->Register(MakeInstance(1)));
  sim.RunFor(seconds(30));
  EXPECT_EQ(seen.ids, (Ids{1, 2}));
  b->reset();
  sim.RunFor(milliseconds(1));
  EXPECT_EQ(seen.ids, (Ids{1}));
  watch.reset();
  const int calls = seen.calls;
  a->reset();
  sim.RunFor(milliseconds(1));
  EXPECT_EQ(seen.calls, calls);
}

TEST(MemDiscovery, AKilledOwnerExpiresAfterOneTtl) {
  rt::SimRuntime sim(1);
  MemHub hub(sim, seconds(10));
  rt::SimHost& worker = sim.AddHost("worker");
  auto registration = hub.Open(worker)->Register(MakeInstance(7));
  Seen seen;
  auto watch = hub.Open(sim)->WatchInstances("", seen.Callback());
  sim.RunFor(seconds(20));
  EXPECT_EQ(seen.ids, (Ids{7}));
  worker.Kill();
  registration->reset();
  sim.RunFor(seconds(6));
  EXPECT_EQ(seen.ids, (Ids{7}));
  sim.RunFor(seconds(5));
  EXPECT_TRUE(seen.ids.empty());
}

class FileDiscoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ + "/discovery";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<Discovery> Open() {
    auto opened = OpenFileDiscovery(sim_, {.folder = folder_});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  std::string PathOf(uint64_t id) const { return folder_ + "/" + InstanceFileName(id); }

  std::string root_;
  std::string folder_;
  rt::SimRuntime sim_{1};
};

TEST_F(FileDiscoveryTest, FindsRenewsAndRemoves) {
  auto discovery = Open();
  struct stat info = {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  Seen seen;
  auto watch = discovery->WatchInstances("dynamo", seen.Callback());
  sim_.RunFor(milliseconds(1));
  EXPECT_EQ(seen.calls, 1);
  auto one = discovery->Register(MakeInstance(1));
  auto other = discovery->Register(MakeInstance(2, "elsewhere"));
  ASSERT_TRUE(one && other);
  sim_.RunFor(milliseconds(50));
  EXPECT_EQ(seen.ids, (Ids{1}));
  // Renewals keep it alive and are no change.
  const int calls = seen.calls;
  sim_.RunFor(seconds(60));
  EXPECT_EQ(seen.calls, calls);
  one->reset();
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
  sim_.RunFor(milliseconds(150));
  EXPECT_TRUE(seen.ids.empty());
}

TEST_F(FileDiscoveryTest, ADeadWritersFileGoesWithinOnePoll) {
  auto discovery = Open();
  Seen seen;
  auto watch = discovery->WatchInstances("", seen.Callback());
  {
    InstanceRecord record;
    record.boot_id = BootId();
    record.instance = MakeInstance(9);
    auto held = WriteInstanceFile(folder_, record);
    ASSERT_TRUE(held) << held.error().message;
    sim_.RunFor(milliseconds(50));
    EXPECT_EQ(seen.ids, (Ids{9}));
  }  // the lock goes, the file stays, as after kill -9
  EXPECT_TRUE(std::filesystem::exists(PathOf(9)));
  sim_.RunFor(milliseconds(150));
  EXPECT_TRUE(seen.ids.empty());
  EXPECT_FALSE(std::filesystem::exists(PathOf(9)));
}

TEST_F(FileDiscoveryTest, AWriterOfAnotherBootExpiresByTheReadersClock) {
  auto discovery = Open();
  Seen seen;
  auto watch = discovery->WatchInstances("", seen.Callback());
  InstanceRecord record;
  record.boot_id = "another-machine";
  record.instance = MakeInstance(5);
  {
    ASSERT_TRUE(WriteInstanceFile(folder_, record));
  }
  sim_.RunFor(seconds(9));
  EXPECT_EQ(seen.ids, (Ids{5}));
  record.sequence = 1;
  {
    ASSERT_TRUE(WriteInstanceFile(folder_, record));
  }
  sim_.RunFor(seconds(9));
  EXPECT_EQ(seen.ids, (Ids{5}));
  sim_.RunFor(seconds(2));
  EXPECT_TRUE(seen.ids.empty());
  // It was only slow: the next renewal brings it back.
  record.sequence = 2;
  {
    ASSERT_TRUE(WriteInstanceFile(folder_, record));
  }
  sim_.RunFor(milliseconds(150));
  EXPECT_EQ(seen.ids, (Ids{5}));
}

TEST_F(FileDiscoveryTest, ALostStoreKeepsWhatIsKnownAndComesBack) {
  auto discovery = Open();
  Seen seen;
  auto watch = discovery->WatchInstances("", seen.Callback());
  auto one = discovery->Register(MakeInstance(1));
  sim_.RunFor(milliseconds(100));
  ASSERT_EQ(seen.ids, (Ids{1}));
  const int calls = seen.calls;
  std::filesystem::remove_all(folder_);
  sim_.RunFor(seconds(30));
  EXPECT_TRUE(std::filesystem::exists(PathOf(1)));
  EXPECT_EQ(seen.ids, (Ids{1}));
  EXPECT_EQ(seen.calls, calls);  // never flickered
}

TEST_F(FileDiscoveryTest, HostileFilesAreIgnored) {
  auto discovery = Open();
  Seen seen;
  auto watch = discovery->WatchInstances("", seen.Callback());
  auto good = discovery->Register(MakeInstance(1));
  std::ofstream(PathOf(2)) << "nonsense";
  std::ofstream(PathOf(3)) << std::string(kMaxInstanceFileBytes + 1, 'x');
  std::ofstream(folder_ + "/zzzz.instance") << "wrong name";
  std::ofstream(PathOf(4)).close();
  std::filesystem::create_symlink(PathOf(1), PathOf(5));
  ASSERT_EQ(mkfifo(PathOf(6).c_str(), 0600), 0);
  std::filesystem::copy_file(PathOf(1), PathOf(7));  // says that it is instance 1
  sim_.RunFor(milliseconds(300));
  EXPECT_EQ(seen.ids, (Ids{1}));
}

TEST_F(FileDiscoveryTest, FlippedBytesNeverDecode) {
  InstanceRecord record;
  record.boot_id = BootId();
  record.sequence = 3;
  record.instance = MakeInstance(1);
  const std::string good = EncodeInstanceFile(record);
  ASSERT_TRUE(DecodeInstanceFile(std::as_bytes(std::span(good))));
  for (size_t i = good.find('\n') + 1; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(DecodeInstanceFile(std::as_bytes(std::span(bad)))) << i;
  }
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(DecodeInstanceFile(std::as_bytes(std::span(good).first(size)))) << size;
}

TEST_F(FileDiscoveryTest, RefusesAFolderThatOthersCanWriteTo) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  auto opened = OpenFileDiscovery(sim_, {.folder = folder_});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("chmod 700"), std::string::npos) << opened.error().message;
  EXPECT_FALSE(OpenFileDiscovery(sim_, {.folder = "relative"}));
  std::filesystem::create_symlink(root_, root_ + "/link");
  EXPECT_FALSE(OpenFileDiscovery(sim_, {.folder = root_ + "/link"}));
}

}  // namespace
}  // namespace tandem::cluster

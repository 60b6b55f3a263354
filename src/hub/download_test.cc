// Downloads on threads of their own from a server in this process: for the sanitizers' sake. The
// hub's manners in full are in tests/e2e/test_hub.py.
#include "hub/download.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "net/http_server.h"
#include "rt/real_runtime.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string Bytes(size_t size) {
  std::string bytes;
  for (size_t i = 0; bytes.size() < size; ++i) bytes += fmt::format("{:x},", i * 7919);
  bytes.resize(size);
  return bytes;
}

class HubDownload : public testing::Test {
 protected:
  HubDownload()
      : server_(runtime_, *runtime_.network().Listen({"127.0.0.1", 0}),
                [this](net::HttpRequest request, net::HttpResponder& responder) {
                  return Answer(std::move(request), responder);
                }),
        folder_(fs::temp_directory_path() / fmt::format("hub_download_{}", getpid())) {
    fs::remove_all(folder_);
    server_.Start();
    settings_.endpoint = *net::ParseUrl(fmt::format("http://127.0.0.1:{}", server_.address().port));
    settings_.endpoint.target.clear();
    settings_.cache = folder_.string();
  }
  ~HubDownload() override { fs::remove_all(folder_); }

  rt::Task<void> Answer(net::HttpRequest request, net::HttpResponder& responder) {
    if (request.method == "HEAD") {
      net::HttpHeaders headers = {{"x-linked-etag", '"' + etag_ + '"'},
                                  {"x-linked-size", std::to_string(bytes_.size())}};
      (void)co_await responder.Respond(200, std::move(headers), "");
      co_return;
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    const std::string range(request.headers.Find("range").value_or(""));
    EXPECT_EQ(sscanf(range.c_str(), "bytes=%lu-%lu", &begin, &end), 2) << range;
    asked_.push_back(begin);
    net::HttpHeaders headers = {
        {"content-range", fmt::format("bytes {}-{}/{}", begin, end, bytes_.size())}};
    const std::string piece = bytes_.substr(begin, end + 1 - begin);
    if (++answers_ % break_every_ != 0) {
      (void)co_await responder.Respond(206, std::move(headers), piece);
      co_return;
    }
    // Breaks off in the middle.
    (void)co_await responder.StartStream(206, std::move(headers));
    (void)co_await responder.Write(std::string_view(piece).substr(0, piece.size() / 2));
  }

  Status Download() {
    Status status;
    const auto work = [&] {
      const HubClient client(settings_, {.attempts = 3, .first_pause = 1ms});
      status = DownloadFile(
          client, RepoCache(settings_.cache, "org/name"), "org/name", kCommit, "a/b.bin",
          {.connections = 4, .chunk_bytes = 10'000, .on_bytes = [this](uint64_t bytes) {
             counted_ += bytes;
           }});
    };
    const auto run = [](rt::Runtime* runtime, std::function<void()> body) -> rt::Task<void> {
      co_await runtime->RunBlocking(std::move(body));
    };
    EXPECT_TRUE(runtime_.RunTask(run(&runtime_, work)));
    return status;
  }

  std::string Downloaded() {
    std::ostringstream text;
    text << std::ifstream(RepoCache(settings_.cache, "org/name").SnapshotPath(kCommit) + "/a/b.bin")
                .rdbuf();
    return text.str();
  }

  rt::RealRuntime runtime_;
  std::string bytes_ = Bytes(543'210);
  std::string etag_ = Hex(Sha256(bytes_));
  int break_every_ = 1'000'000;
  int answers_ = 0;
  std::vector<uint64_t> asked_;
  std::atomic<uint64_t> counted_{0};
  net::HttpServer server_;
  Settings settings_;
  fs::path folder_;
};

TEST_F(HubDownload, RangesInParallelWithBreaks) {
  break_every_ = 4;
  const auto status = Download();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(Downloaded(), bytes_);
  EXPECT_EQ(counted_, bytes_.size());
  EXPECT_GT(asked_.size(), 60u);
  asked_.clear();
  ASSERT_TRUE(Download());
  EXPECT_TRUE(asked_.empty()) << "it was there";
}

TEST_F(HubDownload, GoesOnBehindWhatIsThere) {
  const std::string blob = RepoCache(settings_.cache, "org/name").BlobPath(etag_);
  fs::create_directories(fs::path(blob).parent_path());
  std::ofstream(blob + ".incomplete") << bytes_.substr(0, 500'000);
  ASSERT_TRUE(Download());
  EXPECT_EQ(Downloaded(), bytes_);
  EXPECT_EQ(*std::min_element(asked_.begin(), asked_.end()), 500'000u);
  EXPECT_EQ(counted_, bytes_.size());
}

TEST_F(HubDownload, EmptyFilesAndWrongBeginnings) {
  const std::string blob = RepoCache(settings_.cache, "org/name").BlobPath(etag_);
  fs::create_directories(fs::path(blob).parent_path());
  std::ofstream(blob + ".incomplete") << "not the file's beginning";
  const auto refused = Download();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_FALSE(fs::exists(blob + ".incomplete"));
  bytes_.clear();
  etag_ = Hex(Sha256(bytes_));
  const auto empty = Download();
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(Downloaded(), "");
}

TEST_F(HubDownload, AServerThatAlwaysBreaksIsGivenUp) {
  bytes_.resize(1);
  etag_ = Hex(Sha256(bytes_));
  break_every_ = 1;
  const auto status = Download();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("after 3 attempts"), std::string::npos)
      << status.error().message;
  EXPECT_EQ(asked_.size(), 3u);
}

}  // namespace
}  // namespace tandem::hub

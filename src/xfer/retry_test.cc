// What is tried again, and what is not: in simulation, where answers can be lost at the right
// moment.

#include <gtest/gtest.h>

#include "rt/sim_runtime.h"
#include "xfer/arena.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"

namespace tandem::xfer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kBlockBytes = 4096;
constexpr uint64_t kIncarnation = 9;

KvIdentity Identity() {
  KvIdentity id;
  id.model_digest = "m";
  id.block_bytes = kBlockBytes;
  return id;
}

class RetryTest : public testing::Test {
 protected:
  RetryTest() {
    rt::SimLink link;
    link.latency = milliseconds(10);
    sim_.SetDefaultLink(link);
    StartServer();
    KvReader::Options options;
    options.identity = Identity();
    options.transports = {"tcp"};
    options.io_timeout = seconds(1);
    reader_ = std::make_unique<KvReader>(reader_host_, options, metrics_);
    source_.engine_id = "owner";
    source_.host = "127.0.0.1";
    source_.port = 5600;
    source_.incarnation = kIncarnation;
    source_.lease = leases_.Grant("r", {{1, 7}}, sim_.Now()).value().lease;
  }
  void StartServer() {
    KvServer::Options options;
    options.engine_id = "owner";
    options.identity = Identity();
    options.listen = {"127.0.0.1", 5600};
    server_ = std::make_unique<KvServer>(owner_host_, arena_, leases_, options, metrics_);
    ASSERT_TRUE(server_->Start().has_value());
  }
  rt::Task<void> PullInto(std::optional<Code>* code) {
    std::vector<PullBlock> blocks{{{1, 7}, memory_.data()}};
    const auto result =
        co_await reader_->Pull(source_, blocks, /*release=*/false, {}, sim_.Now() + seconds(10));
    *code = result.has_value() ? Code::kOk : result.error().code;
  }
  Code Pull() {
    std::optional<Code> code;
    reader_host_.Spawn(PullInto(&code));
    EXPECT_TRUE(sim_.RunUntil([&] { return code.has_value(); }, seconds(20)));
    return code.value_or(Code::kInternal);
  }

  rt::SimRuntime sim_{1};
  rt::SimHost& owner_host_ = sim_.AddHost("owner");
  rt::SimHost& reader_host_ = sim_.AddHost("reader");
  Metrics metrics_;
  Arena arena_ = Arena::Create({.block_bytes = kBlockBytes, .blocks = 4}).value();
  kv::LeaseTable leases_{{.incarnation = kIncarnation}};
  std::unique_ptr<KvServer> server_;
  std::unique_ptr<KvReader> reader_;
  LeaseSource source_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBlockBytes);
};

TEST_F(RetryTest, AConnectionThatDiedInThePoolIsReplaced) {
  EXPECT_EQ(Pull(), Code::kOk);
  // The owner drops its connections; the reader does not know yet when it asks again.
  server_.reset();
  StartServer();
  EXPECT_EQ(Pull(), Code::kOk);
  EXPECT_EQ(leases_.stats().opened, 2u);
}

TEST_F(RetryTest, AConnectionKnownToBeDeadIsNotUsed) {
  EXPECT_EQ(Pull(), Code::kOk);
  EXPECT_EQ(reader_->connections(), 1u);
  server_.reset();
  sim_.RunFor(milliseconds(100));
  EXPECT_EQ(reader_->connections(), 0u);
}

TEST_F(RetryTest, ACloseWhoseAnswerWasLostIsAskedAgain) {
  std::optional<Code> code;
  reader_host_.Spawn(PullInto(&code));
  ASSERT_TRUE(sim_.RunUntil([&] { return leases_.stats().closed_valid == 1; }, seconds(5)));
  ASSERT_FALSE(code.has_value()) << "the answer is still on its way";
  sim_.ResetConnections("owner", "reader");
  ASSERT_TRUE(sim_.RunUntil([&] { return code.has_value(); }, seconds(5)));
  EXPECT_EQ(*code, Code::kOk);
  EXPECT_EQ(leases_.stats().closed_stale, 0u);
}

TEST_F(RetryTest, ACloseThatWasLostItselfIsStale) {
  std::optional<Code> code;
  reader_host_.Spawn(PullInto(&code));
  ASSERT_TRUE(sim_.RunUntil([&] { return leases_.stats().opened == 1; }, seconds(5)));
  // The blocks arrive, then the link breaks with the Close on its way: the pin died with it.
  sim_.RunFor(milliseconds(12));
  sim_.ResetConnections("owner", "reader");
  ASSERT_TRUE(sim_.RunUntil([&] { return code.has_value(); }, seconds(5)));
  EXPECT_EQ(*code, Code::kStale);
  EXPECT_EQ(leases_.stats().leases, 1u);
  EXPECT_EQ(Pull(), Code::kOk) << "the lease was not lost with it";
}

TEST_F(RetryTest, ASilentOwnerIsGivenUp) {
  EXPECT_EQ(Pull(), Code::kOk);
  sim_.Partition("owner", "reader");
  const MonoTime start = sim_.Now();
  const Code code = Pull();
  EXPECT_TRUE(code == Code::kConnectionLost || code == Code::kUnavailable) << CodeName(code);
  EXPECT_LT(sim_.Now() - start, seconds(8));
}

}  // namespace
}  // namespace tandem::xfer

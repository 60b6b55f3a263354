// Server and reader in one process, over real sockets.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/log.h"
#include "rt/real_runtime.h"
#include "xfer/arena.h"
#include "xfer/frame_stream.h"
#include "xfer/handover_keeper.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"

namespace tandem::xfer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int32_t kBlocks = 64;
constexpr size_t kBlockBytes = 48 * 1024;
constexpr uint64_t kIncarnation = 0xabcdef0123;

KvIdentity Identity() {
  KvIdentity id;
  id.model_digest = "model";
  id.layout_id = "layout";
  id.dtype = "f16";
  id.block_tokens = 16;
  id.block_bytes = kBlockBytes;
  id.numerics_id = "avx2";
  return id;
}

std::byte ContentAt(kv::BlockId block, size_t at) {
  return static_cast<std::byte>(static_cast<size_t>(block) * 31 + at * 7 + at / 4096);
}

class TransferTest : public testing::Test {
 protected:
  TransferTest() {
    for (kv::BlockId b = 0; b < kBlocks; ++b) {
      for (size_t i = 0; i < kBlockBytes; ++i) arena_.Block(b)[i] = ContentAt(b, i);
    }
    server_options_.engine_id = "prefill-1";
    server_options_.identity = Identity();
    server_options_.listen.host = "127.0.0.1";
    reader_options_.identity = Identity();
    reader_options_.io_timeout = seconds(5);
  }

  void StartServer() {
    server_ = std::make_unique<KvServer>(runtime_, arena_, leases_, server_options_, metrics_);
    ASSERT_TRUE(server_->Start().has_value());
  }
  void StartReader(std::vector<std::string> transports) {
    reader_options_.transports = std::move(transports);
    reader_ = std::make_unique<KvReader>(runtime_, reader_options_, metrics_);
  }
  void Start(std::vector<std::string> transports) {
    StartServer();
    StartReader(std::move(transports));
  }
  void Run(rt::Task<void> task) { ASSERT_TRUE(runtime_.RunTask(std::move(task))); }
  void TearDown() override {
    if (reader_ != nullptr) {
      Run(reader_->Stop());
      EXPECT_EQ(reader_->connections(), 0u);
      EXPECT_EQ(reader_->mappings(), 0u);
    }
    if (server_ != nullptr) Run(server_->Stop());
    EXPECT_EQ(leases_.stats().pins, 0u);
  }

  std::vector<kv::BlockRef> Refs(std::vector<kv::BlockId> ids) const {
    std::vector<kv::BlockRef> refs;
    for (const kv::BlockId id : ids) refs.push_back({id, static_cast<uint64_t>(id) + 100});
    return refs;
  }
  LeaseSource GrantLease(const std::vector<kv::BlockRef>& refs) {
    LeaseSource source;
    source.engine_id = "prefill-1";
    source.host = "127.0.0.1";
    source.port = server_->address().port;
    source.incarnation = kIncarnation;
    source.lease = leases_.Grant("r1", refs, runtime_.Now()).value().lease;
    source.request_id = "r1";
    return source;
  }

  // Pulls into a fresh buffer; the bytes are checked if it succeeds.
  rt::Task<Result<PullStats>> Pull(LeaseSource source, std::vector<kv::BlockRef> refs,
                                   bool release = false, rt::CancelToken cancel = {}) {
    std::vector<std::byte> memory(refs.size() * kBlockBytes);
    std::vector<PullBlock> blocks;
    for (size_t i = 0; i < refs.size(); ++i) {
      blocks.push_back({refs[i], memory.data() + i * kBlockBytes});
    }
    auto result = co_await reader_->Pull(source, std::move(blocks), release, cancel,
                                         runtime_.Now() + seconds(20));
    if (result.has_value()) {
      for (size_t i = 0; i < memory.size(); ++i) {
        const std::byte expected = ContentAt(refs[i / kBlockBytes].block, i % kBlockBytes);
        if (memory[i] != expected) {
          ADD_FAILURE() << "byte " << i << " differs";
          break;
        }
      }
    }
    co_return result;
  }
  // What a pull ends with.
  Code PullCode(LeaseSource source, const std::vector<kv::BlockRef>& refs) {
    Code code = Code::kInternal;
    Run(PullInto(std::move(source), refs, &code));
    return code;
  }
  rt::Task<void> PullInto(LeaseSource source, std::vector<kv::BlockRef> refs, Code* code) {
    const auto result = co_await Pull(std::move(source), std::move(refs));
    *code = result.has_value() ? Code::kOk : result.error().code;
    if (!result.has_value()) message_ = result.error().message;
  }
  uint64_t CounterValue(std::string_view name) { return metrics_.GetCounter(name, "").Value(); }

  rt::RealRuntime runtime_;
  Metrics metrics_;
  Arena arena_ = Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks}).value();
  kv::LeaseTable leases_{{.incarnation = kIncarnation}};
  KvServer::Options server_options_;
  KvReader::Options reader_options_;
  std::unique_ptr<KvServer> server_;
  std::unique_ptr<KvReader> reader_;
  std::string message_;
};

const std::vector<kv::BlockId> kScattered{5, 6, 7, 40, 3, 63, 0, 1};

class EachTransportTest : public TransferTest, public testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Transports, EachTransportTest, testing::Values("shm", "tcp"),
                         [](const auto& param_info) { return param_info.param; });

rt::Task<void> ExpectPull(rt::Task<Result<PullStats>> pull, std::string transport, int64_t bytes) {
  const auto result = co_await std::move(pull);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  if (!result.has_value()) co_return;
  EXPECT_EQ(result->transport, transport);
  EXPECT_EQ(result->bytes, bytes);
  EXPECT_GT(result->seconds, 0);
  EXPECT_TRUE(result->same_numerics);
}

TEST_P(EachTransportTest, CopiesAndReleases) {
  Start({GetParam()});
  const auto refs = Refs(kScattered);
  const LeaseSource source = GrantLease(refs);
  Run(ExpectPull(Pull(source, refs, /*release=*/true), GetParam(), 8 * kBlockBytes));
  EXPECT_EQ(leases_.stats().leases, 0u);
  EXPECT_EQ(leases_.TakeFreed().size(), 1u);
  EXPECT_EQ(PullCode(source, refs), Code::kStale) << "released";
}

TEST_P(EachTransportTest, ConnectionsAreReused) {
  Start({GetParam()});
  const auto refs = Refs({1, 2});
  const LeaseSource source = GrantLease(refs);
  for (int i = 0; i < 5; ++i) {
    Run(ExpectPull(Pull(source, refs), GetParam(), 2 * kBlockBytes));
  }
  EXPECT_EQ(reader_->connections(), 1u);
  EXPECT_EQ(server_->connections(), 1u);
  EXPECT_LE(CounterValue("tandem_kv_arenas_passed_total"), 1u);
  EXPECT_EQ(leases_.stats().closed_valid, 5u);
}

TEST_P(EachTransportTest, AWrongGenerationIsStale) {
  Start({GetParam()});
  auto refs = Refs({1, 2});
  const LeaseSource source = GrantLease(refs);
  refs[1].generation += 1;
  EXPECT_EQ(PullCode(source, refs), Code::kStale);
  EXPECT_EQ(reader_->connections(), 1u) << "a refusal does not cost the connection";
}

TEST_P(EachTransportTest, ARestartedOwnerIsStale) {
  Start({GetParam()});
  const auto refs = Refs({1});
  LeaseSource source = GrantLease(refs);
  Run(ExpectPull(Pull(source, refs), GetParam(), kBlockBytes));
  source.incarnation += 1;
  EXPECT_EQ(PullCode(source, refs), Code::kStale);
  source.incarnation -= 1;
  source.engine_id = "another";
  EXPECT_EQ(PullCode(source, refs), Code::kStale);
}

rt::Task<void> PullAndCancel(KvReader* reader, rt::Runtime* runtime, LeaseSource source,
                             std::vector<PullBlock> blocks, Code* code) {
  rt::CancelSource cancel;
  const auto timer = runtime->RunAt(runtime->Now(), [&cancel] { cancel.Cancel(); });
  const auto result =
      co_await reader->Pull(std::move(source), std::move(blocks), false, cancel.Token(), kNever);
  *code = result.has_value() ? Code::kOk : result.error().code;
}

TEST_P(EachTransportTest, CancelEndsThePullAndItsPin) {
  Start({GetParam()});
  std::vector<kv::BlockId> all;
  for (kv::BlockId b = 0; b < kBlocks; ++b) all.push_back(b);
  const auto refs = Refs(all);
  const LeaseSource source = GrantLease(refs);
  std::vector<std::byte> memory(refs.size() * kBlockBytes);
  std::vector<PullBlock> blocks;
  for (size_t i = 0; i < refs.size(); ++i) {
    blocks.push_back({refs[i], memory.data() + i * kBlockBytes});
  }
  Code code = Code::kOk;
  Run(PullAndCancel(reader_.get(), &runtime_, source, blocks, &code));
  EXPECT_EQ(code, Code::kCancelled);
  EXPECT_EQ(reader_->pulls(), 0u);
  // The lease is there for the retry.
  Run(ExpectPull(Pull(source, refs), GetParam(), kBlocks * static_cast<int64_t>(kBlockBytes)));
}

TEST_F(TransferTest, PrefersSharedMemoryAndFallsBackToTcp) {
  Start({"shm", "tcp"});
  const auto refs = Refs({9});
  const LeaseSource source = GrantLease(refs);
  Run(ExpectPull(Pull(source, refs), "shm", kBlockBytes));
  Run(reader_->Stop());
  // As on another host: nobody listens under that name there.
  reader_options_.fetch_arena = [](const std::string&, uint64_t, uint64_t) -> Result<Fd> {
    return Err(Code::kUnavailable, "connection refused");
  };
  StartReader({"shm", "tcp"});
  Run(ExpectPull(Pull(source, refs), "tcp", kBlockBytes));
  Run(ExpectPull(Pull(source, refs), "tcp", kBlockBytes));
  EXPECT_EQ(CounterValue("tandem_kv_shm_refused_total"), 1u) << "tried once per life of the owner";
}

TEST_F(TransferTest, SharedMemoryCanBeDemanded) {
  server_options_.offer_shm = false;
  Start({"shm"});
  const auto refs = Refs({9});
  EXPECT_EQ(PullCode(GrantLease(refs), refs), Code::kUnavailable);
  EXPECT_NE(message_.find("does not offer"), std::string::npos) << message_;
}

TEST_F(TransferTest, IncompatibleModelsAreNamed) {
  reader_options_.identity.model_digest = "another-model";
  Start({"tcp"});
  const auto refs = Refs({9});
  EXPECT_EQ(PullCode(GrantLease(refs), refs), Code::kIncompatible);
  EXPECT_NE(message_.find("another-model"), std::string::npos) << message_;
}

rt::Task<void> ExpectOtherNumerics(rt::Task<Result<PullStats>> pull) {
  const auto result = co_await std::move(pull);
  EXPECT_TRUE(result.has_value() && !result->same_numerics);
}

TEST_F(TransferTest, OtherNumericsWorkAndAreCounted) {
  reader_options_.identity.numerics_id = "avx512";
  Start({"tcp"});
  const auto refs = Refs({9});
  Run(ExpectOtherNumerics(Pull(GrantLease(refs), refs)));
  EXPECT_EQ(CounterValue("tandem_kv_numerics_mismatch_total"), 1u);
}

TEST_F(TransferTest, NobodyListensIsUnavailable) {
  StartServer();
  const auto refs = Refs({1});
  LeaseSource source = GrantLease(refs);
  Run(server_->Stop());
  server_.reset();
  StartReader({"tcp"});
  EXPECT_EQ(PullCode(source, refs), Code::kUnavailable);
  source.host = "unix:/tmp/x";
  EXPECT_EQ(PullCode(source, refs), Code::kInvalidArgument) << "params come from outside";
  source.host = "";
  EXPECT_EQ(PullCode(source, refs), Code::kInvalidArgument);
}

TEST_F(TransferTest, BlocksOutsideTheArenaAreRefused) {
  Start({"tcp", "shm"});
  const LeaseSource source = GrantLease(Refs({1}));
  EXPECT_EQ(PullCode(source, {{kBlocks, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(PullCode(source, {{-1, 1}}), Code::kInvalidArgument);
}

rt::Task<void> TwelvePulls(TransferTest* test, rt::Runtime* runtime,
                           std::function<rt::Task<Result<PullStats>>()> pull, int* done) {
  (void)test;
  rt::TaskScope scope(*runtime);
  const auto one = [](std::function<rt::Task<Result<PullStats>>()> start,
                      int* count) -> rt::Task<void> {
    const auto result = co_await start();
    if (result.has_value()) ++*count;
  };
  for (int i = 0; i < 12; ++i) scope.Spawn(one(pull, done));
  co_await scope.Join();
}

TEST_F(TransferTest, PullsBeyondTheConnectionLimitWaitTheirTurn) {
  reader_options_.max_connections_per_peer = 3;
  Start({"tcp"});
  const auto refs = Refs(kScattered);
  leases_.SetOnFreed([] {});
  const LeaseSource source = GrantLease(refs);
  int done = 0;
  Run(TwelvePulls(this, &runtime_, [&] { return Pull(source, refs); }, &done));
  EXPECT_EQ(done, 12);
  EXPECT_LE(reader_->connections(), 3u);
}

rt::Task<void> ReleaseAndWait(KvReader* reader, rt::Runtime* runtime, LeaseSource source) {
  reader->Release(std::move(source));
  while (reader->releases() > 0) (void)co_await runtime->Sleep(milliseconds(1));
}

TEST_F(TransferTest, ReleaseEndsTheLease) {
  Start({"tcp"});
  const LeaseSource source = GrantLease(Refs({1}));
  Run(ReleaseAndWait(reader_.get(), &runtime_, source));
  EXPECT_EQ(leases_.stats().leases, 0u);
  Run(ReleaseAndWait(reader_.get(), &runtime_, source));  // unknown by now: no error
}

rt::Task<void> HoldFor(HandoverKeeper* keeper, kv::LeaseTable* leases, rt::Runtime* runtime,
                       TransferParams params, Duration time) {
  const HandoverKeeper::Hold hold = keeper->Keep(params);
  const MonoTime end = runtime->Now() + time;
  while (runtime->Now() < end) {
    (void)co_await runtime->Sleep(milliseconds(5));
    leases->Expire(runtime->Now());
  }
}

TEST_F(TransferTest, HeartbeatsKeepALeaseForItsHolder) {
  kv::LeaseTable leases({.incarnation = kIncarnation, .lease = milliseconds(120)});
  KvServer server(runtime_, arena_, leases, server_options_, metrics_);
  ASSERT_TRUE(server.Start().has_value());
  StartReader({"tcp"});
  HandoverKeeper keeper(runtime_, *reader_, metrics_);
  TransferParams params;
  params.engine_id = "prefill-1";
  params.host = "127.0.0.1";
  params.port = server.address().port;
  params.incarnation = kIncarnation;
  params.lease = leases.Grant("r", Refs({1}), runtime_.Now()).value().lease;
  params.lease_duration = milliseconds(120);
  Run(HoldFor(&keeper, &leases, &runtime_, params, milliseconds(300)));
  EXPECT_EQ(leases.stats().leases, 1u);
  EXPECT_EQ(keeper.holds(), 0u);
  leases.Expire(runtime_.Now() + milliseconds(120));
  EXPECT_EQ(leases.stats().expired, 1u) << "nobody holds it any more";
  Run(keeper.Stop());
  Run(server.Stop());
}

// Bytes from a stranger, then silence: the server answers or hangs up, and others are served.
rt::Task<void> TalkNonsense(rt::Runtime* runtime, rt::Address to, std::vector<std::byte> bytes) {
  auto stream = co_await runtime->network().Connect(to, seconds(1));
  if (!stream.has_value()) co_return;
  (void)co_await (*stream)->Write(bytes);
  std::array<std::byte, 256> answer{};
  rt::CancelSource enough;
  const auto timer = runtime->RunAt(runtime->Now() + milliseconds(20), [&] { enough.Cancel(); });
  (void)co_await (*stream)->Read(answer, enough.Token());
}

TEST_F(TransferTest, NonsenseDoesNotHurtTheServer) {
  SetLogLevel(LogLevel::kError);
  Start({"tcp"});
  std::mt19937 random(5);
  Hello hello;
  hello.identity = Identity();
  for (int round = 0; round < 60; ++round) {
    std::vector<std::byte> bytes;
    if (round % 2 == 0) bytes = Encode(hello);  // nonsense after a good start
    if (round % 3 == 0) {
      Frame open = Encode(OpenRequest{1, kIncarnation, true, Refs({1, 2, 3})});
      open[kFrameHeaderBytes + 17] = std::byte{0xff};  // more blocks than there are
      bytes.insert(bytes.end(), open.begin(), open.end());
    }
    const size_t n = random() % 200;
    for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<std::byte>(random()));
    Run(TalkNonsense(&runtime_, server_->address(), bytes));
  }
  const auto refs = Refs({1});
  EXPECT_EQ(PullCode(GrantLease(refs), refs), Code::kOk);
  SetLogLevel(LogLevel::kInfo);
}

TEST_F(TransferTest, ConnectionsAreLimited) {
  SetLogLevel(LogLevel::kError);
  server_options_.max_connections = 1;
  Start({"tcp"});
  const auto refs = Refs({1});
  const LeaseSource source = GrantLease(refs);
  EXPECT_EQ(PullCode(source, refs), Code::kOk);
  auto second = std::move(reader_);
  StartReader({"tcp"});
  EXPECT_EQ(PullCode(source, refs), Code::kConnectionLost);
  EXPECT_EQ(CounterValue("tandem_kv_side_channel_refused_total"), 1u);
  Run(second->Stop());
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace tandem::xfer

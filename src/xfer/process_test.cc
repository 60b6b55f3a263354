// Hand-over between two processes, one of which dies, hangs or is somebody else's.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "rt/real_runtime.h"
#include "xfer/arena.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"

namespace tandem::xfer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int32_t kBlocks = 256;
constexpr size_t kBlockBytes = size_t{512} << 10;
constexpr uint64_t kIncarnation = 4711;

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

std::vector<kv::BlockRef> AllBlocks() {
  std::vector<kv::BlockRef> refs;
  for (kv::BlockId b = 0; b < kBlocks; ++b) refs.push_back({b, 1});
  return refs;
}

// What one process tells the other through a pipe.
struct Note {
  uint16_t port = 0;
  kv::LeaseId lease = 0;
};

LeaseSource SourceOf(const Note& note) {
  LeaseSource source;
  source.engine_id = "prefill";
  source.host = "127.0.0.1";
  source.port = note.port;
  source.incarnation = kIncarnation;
  source.lease = note.lease;
  source.request_id = "r";
  return source;
}

// An owner with one lease over its whole arena.
struct Owner {
  Owner() {
    for (int32_t b = 0; b < kBlocks; ++b) std::memset(arena.Block(b), b, kBlockBytes);
    KvServer::Options options;
    options.engine_id = "prefill";
    options.identity = Identity();
    options.listen.host = "127.0.0.1";
    server = std::make_unique<KvServer>(runtime, arena, leases, options, metrics);
    CHECK(server->Start().has_value());
    note.port = server->address().port;
    note.lease = leases.Grant("r", AllBlocks(), runtime.Now()).value().lease;
  }
  rt::RealRuntime runtime;
  Metrics metrics;
  Arena arena = Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks}).value();
  kv::LeaseTable leases{{.incarnation = kIncarnation}};
  std::unique_ptr<KvServer> server;
  Note note;
};

class Pipe {
 public:
  Pipe() { CHECK(pipe(ends_) == 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  template <class T>
  void Send(const T& value) {
    CHECK(write(ends_[1], &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value)));
  }
  template <class T>
  T Receive() {
    T value;
    CHECK(read(ends_[0], &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value)));
    return value;
  }

 private:
  int ends_[2];
};

// A forked process that runs `body` and is killed at the latest with the test. Fork only while this
// process has one thread.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    CHECK(pid_ >= 0);
    if (pid_ > 0) return;
    body();
    _exit(0);
  }
  ~Child() { Signal(SIGKILL); }
  void Signal(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    if (signal != SIGKILL) return;
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

void RunOwner(Pipe* pipe) {
  Owner owner;
  pipe->Send(owner.note);
  owner.runtime.Run();
}

struct Outcome {
  Code code = Code::kInternal;
  std::string transport;
  double seconds = 0;
};

KvReader::Options ReaderOptions(std::vector<std::string> transports) {
  KvReader::Options options;
  options.identity = Identity();
  options.transports = std::move(transports);
  return options;
}

// Pulls everything; checks the bytes if that succeeds. `during` runs on the loop after 4 ms.
rt::Task<void> PullAll(rt::Runtime* runtime, KvReader* reader, Note note, Outcome* outcome,
                       std::function<void()> during) {
  std::vector<std::byte> memory(kBlocks * kBlockBytes);
  std::vector<PullBlock> blocks;
  for (const kv::BlockRef& ref : AllBlocks()) {
    blocks.push_back({ref, memory.data() + static_cast<size_t>(ref.block) * kBlockBytes});
  }
  const MonoTime start = runtime->Now();
  const auto timer = runtime->RunAt(start + milliseconds(4), [&during] {
    if (during) during();
  });
  const auto result = co_await reader->Pull(SourceOf(note), std::move(blocks), false, {},
                                            runtime->Now() + seconds(30));
  outcome->seconds = ToSeconds(runtime->Now() - start);
  outcome->code = result.has_value() ? Code::kOk : result.error().code;
  if (!result.has_value()) co_return;
  outcome->transport = result->transport;
  for (int32_t b = 0; b < kBlocks; ++b) {
    const auto byte = static_cast<std::byte>(b);
    const std::byte* block = memory.data() + static_cast<size_t>(b) * kBlockBytes;
    if (block[0] != byte || std::memcmp(block, block + 1, kBlockBytes - 1) != 0) {
      ADD_FAILURE() << "block " << b << " has other bytes";
    }
  }
}

class ProcessTest : public testing::TestWithParam<std::string> {
 protected:
  ProcessTest() { SetLogLevel(LogLevel::kError); }
  ~ProcessTest() override { SetLogLevel(LogLevel::kInfo); }
};

INSTANTIATE_TEST_SUITE_P(Transports, ProcessTest, testing::Values("shm", "tcp"),
                         [](const auto& param_info) { return param_info.param; });

TEST_P(ProcessTest, BytesArrive) {
  Pipe pipe;
  Child owner([&] { RunOwner(&pipe); });
  const Note note = pipe.Receive<Note>();
  rt::RealRuntime runtime;
  Metrics metrics;
  KvReader reader(runtime, ReaderOptions({GetParam()}), metrics);
  Outcome outcome;
  ASSERT_TRUE(runtime.RunTask(PullAll(&runtime, &reader, note, &outcome, {})));
  EXPECT_EQ(outcome.code, Code::kOk);
  EXPECT_EQ(outcome.transport, GetParam());
  ASSERT_TRUE(runtime.RunTask(reader.Stop()));
}

rt::Task<void> WaitForUnmapping(rt::Runtime* runtime, KvReader* reader) {
  const MonoTime limit = runtime->Now() + seconds(2);
  while (runtime->Now() < limit && reader->mappings() + reader->connections() > 0) {
    (void)co_await runtime->Sleep(milliseconds(1));
  }
}

TEST_P(ProcessTest, OwnerKilledInMidPull) {
  Pipe pipe;
  Child owner([&] { RunOwner(&pipe); });
  const Note note = pipe.Receive<Note>();
  rt::RealRuntime runtime;
  Metrics metrics;
  KvReader reader(runtime, ReaderOptions({GetParam()}), metrics);
  Outcome outcome;
  ASSERT_TRUE(runtime.RunTask(
      PullAll(&runtime, &reader, note, &outcome, [&owner] { owner.Signal(SIGKILL); })));
  EXPECT_TRUE(outcome.code == Code::kConnectionLost || outcome.code == Code::kUnavailable)
      << CodeName(outcome.code);
  EXPECT_LT(outcome.seconds, 2.0);
  ASSERT_TRUE(runtime.RunTask(WaitForUnmapping(&runtime, &reader)));
  EXPECT_EQ(reader.mappings(), 0u) << "a mapping would keep the dead owner's memory alive";
  EXPECT_EQ(reader.connections(), 0u);
  ASSERT_TRUE(runtime.RunTask(reader.Stop()));
}

TEST_P(ProcessTest, OwnerThatHangsIsGivenUp) {
  Pipe pipe;
  Child owner([&] { RunOwner(&pipe); });
  const Note note = pipe.Receive<Note>();
  rt::RealRuntime runtime;
  Metrics metrics;
  KvReader::Options options = ReaderOptions({GetParam()});
  options.io_timeout = milliseconds(300);
  options.connect_timeout = milliseconds(300);
  KvReader reader(runtime, options, metrics);
  Outcome outcome;
  ASSERT_TRUE(runtime.RunTask(
      PullAll(&runtime, &reader, note, &outcome, [&owner] { owner.Signal(SIGSTOP); })));
  EXPECT_TRUE(outcome.code == Code::kConnectionLost || outcome.code == Code::kUnavailable)
      << CodeName(outcome.code);
  EXPECT_LT(outcome.seconds, 5.0);
  ASSERT_TRUE(runtime.RunTask(reader.Stop()));
}

void RunReader(Pipe* to_reader, std::string transport) {
  const Note note = to_reader->Receive<Note>();
  rt::RealRuntime runtime;
  Metrics metrics;
  KvReader reader(runtime, ReaderOptions({transport}), metrics);
  for (Outcome outcome{Code::kOk, "", 0}; outcome.code == Code::kOk;) {
    CHECK(runtime.RunTask(PullAll(&runtime, &reader, note, &outcome, {})));
  }
}

rt::Task<void> KillWhilePulling(Owner* owner, Child* reader) {
  rt::Runtime& runtime = owner->runtime;
  while (owner->leases.stats().pins == 0) (void)co_await runtime.Sleep(milliseconds(1));
  reader->Signal(SIGKILL);
  const MonoTime limit = runtime.Now() + seconds(2);
  while (runtime.Now() < limit && owner->leases.stats().pins + owner->server->connections() > 0) {
    (void)co_await runtime.Sleep(milliseconds(1));
  }
}

TEST_P(ProcessTest, ReaderKilledInMidPullLeavesTheLeaseForARetry) {
  Pipe pipe;
  Child first([&] { RunReader(&pipe, GetParam()); });
  Owner owner;
  pipe.Send(owner.note);
  ASSERT_TRUE(owner.runtime.RunTask(KillWhilePulling(&owner, &first)));
  const kv::LeaseStats stats = owner.leases.stats();
  EXPECT_EQ(stats.pins, 0u);
  EXPECT_EQ(stats.draining, 0u);
  EXPECT_EQ(stats.leases, 1u);
  EXPECT_EQ(owner.server->connections(), 0u);

  KvReader second(owner.runtime, ReaderOptions({GetParam()}), owner.metrics);
  Outcome outcome;
  ASSERT_TRUE(owner.runtime.RunTask(PullAll(&owner.runtime, &second, owner.note, &outcome, {})));
  EXPECT_EQ(outcome.code, Code::kOk);
  ASSERT_TRUE(owner.runtime.RunTask(second.Stop()));
  ASSERT_TRUE(owner.runtime.RunTask(owner.server->Stop()));
}

// Only root can become somebody else; anybody else stays the same user and may share memory.
TEST(OtherUserTest, DoesNotGetTheArena) {
  SetLogLevel(LogLevel::kError);
  const bool root = geteuid() == 0;
  Pipe to_reader, answer;
  Child reader_process([&] {
    const Note note = to_reader.Receive<Note>();
    if (root) CHECK(setuid(65534) == 0);
    rt::RealRuntime runtime;
    Metrics metrics;
    KvReader reader(runtime, ReaderOptions({"shm", "tcp"}), metrics);
    Outcome outcome;
    CHECK(runtime.RunTask(PullAll(&runtime, &reader, note, &outcome, {})));
    CHECK(outcome.code == Code::kOk);
    answer.Send(outcome.transport == "tcp");
  });
  Owner owner;
  to_reader.Send(owner.note);
  const auto wait = [](Owner* o) -> rt::Task<void> {
    while (o->leases.stats().closed_valid == 0) (void)co_await o->runtime.Sleep(milliseconds(1));
    (void)co_await o->runtime.Sleep(milliseconds(10));  // for the answer to leave
  };
  ASSERT_TRUE(owner.runtime.RunTask(wait(&owner)));
  EXPECT_EQ(answer.Receive<bool>(), root);
  ASSERT_TRUE(owner.runtime.RunTask(owner.server->Stop()));
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace tandem::xfer

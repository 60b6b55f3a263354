// The hand-over's side channel fed with arbitrary bytes: its decoders, an owner that a peer talks
// to, and a reader whose owner talks nonsense. The first byte chooses who is fed, whether a correct
// greeting goes first, and how the bytes are cut into pieces.
#include <span>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "rt/scope.h"
#include "rt/sim_runtime.h"
#include "xfer/arena.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"
#include "xfer/side_channel.h"

namespace tandem::xfer {
namespace {

using Bytes = std::vector<std::byte>;

const rt::Address kAddress{"127.0.0.1", 9000};
constexpr size_t kBlockBytes = 512;
constexpr int32_t kBlocks = 8;
constexpr uint64_t kIncarnation = 77;

KvIdentity Identity() { return {"model", "layout", "f16", 16, kBlockBytes, "avx2"}; }

std::vector<kv::BlockRef> LeasedBlocks() { return {{1, 101}, {2, 102}, {5, 105}}; }

void DecodeAll(std::span<const std::byte> bytes) {
  if (bytes.size() >= kFrameHeaderBytes) {
    static_cast<void>(DecodeHeader(bytes.first<kFrameHeaderBytes>()));
  }
  static_cast<void>(Decode<Hello>(bytes));
  static_cast<void>(Decode<Welcome>(bytes));
  static_cast<void>(Decode<Error>(bytes));
  static_cast<void>(Decode<OpenRequest>(bytes));
  static_cast<void>(Decode<Opened>(bytes));
  static_cast<void>(Decode<CloseRequest>(bytes));
  static_cast<void>(Decode<Closed>(bytes));
  static_cast<void>(Decode<Heartbeat>(bytes));
  static_cast<void>(Decode<HeartbeatAck>(bytes));
  static_cast<void>(Decode<ReleaseRequest>(bytes));
  static_cast<void>(Decode<Released>(bytes));
}

Bytes Behind(Frame greeting, bool greet, std::span<const std::byte> bytes) {
  if (!greet) greeting.clear();
  greeting.insert(greeting.end(), bytes.begin(), bytes.end());
  return greeting;
}

rt::Task<void> Drain(rt::Stream* stream, rt::CancelToken cancel) {
  Bytes buffer(4096);
  for (;;) {
    const auto got = co_await stream->Read(buffer, cancel);
    if (!got || *got == 0) co_return;
  }
}

rt::Task<void> TalkToOwner(rt::Runtime* runtime, Bytes bytes) {
  auto stream = co_await runtime->network().Connect(kAddress, std::chrono::seconds(1));
  CHECK(stream);
  rt::TaskScope answers(*runtime);
  answers.Spawn(Drain(stream->get(), answers.Token()));
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
  answers.Cancel();
  co_await answers.Join();
}

// Whatever a peer sends: its pins die with it, and each block comes back exactly once.
void FeedOwner(const Bytes& bytes, size_t max_read) {
  rt::SimRuntime sim;
  sim.SetDefaultLink({std::chrono::microseconds(1), {}, 1e9, max_read});
  Metrics metrics;
  static const Arena arena =
      Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks, .shared = false}).value();
  kv::LeaseTable leases({.incarnation = kIncarnation});
  CHECK(leases.Grant("r1", LeasedBlocks(), sim.Now()));
  KvServer server(sim, arena, leases,
                  {.engine_id = "owner", .identity = Identity(), .listen = kAddress}, metrics);
  CHECK(server.Start());
  CHECK(sim.RunTask(TalkToOwner(&sim, bytes)));
  sim.RunFor(std::chrono::seconds(20));
  CHECK(server.connections() == 0);
  CHECK(leases.stats().pins == 0 && leases.stats().draining == 0);
  leases.Expire(sim.Now() + std::chrono::hours(1));
  const auto freed = leases.TakeFreed();
  CHECK(freed.size() == 1 && freed.front().blocks.size() == LeasedBlocks().size());
  CHECK(sim.RunTask(server.Stop()));
}

rt::Task<void> BeOwner(rt::Runtime* runtime, Bytes bytes) {
  auto listener = runtime->network().Listen(kAddress);
  CHECK(listener);
  auto stream = co_await (*listener)->Accept();
  if (!stream) co_return;
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
}

rt::Task<void> PullAndBeat(rt::Runtime* runtime, KvReader* reader) {
  const LeaseSource source{"owner", kAddress.host, kAddress.port, kIncarnation, 5, "r1"};
  Bytes memory(LeasedBlocks().size() * kBlockBytes);
  std::vector<PullBlock> blocks;
  for (const kv::BlockRef& ref : LeasedBlocks()) {
    blocks.push_back({ref, memory.data() + blocks.size() * kBlockBytes});
  }
  const MonoTime deadline = runtime->Now() + std::chrono::seconds(10);
  const auto pulled = co_await reader->Pull(source, std::move(blocks), true, {}, deadline);
  if (pulled) CHECK(static_cast<size_t>(pulled->bytes) == memory.size());
  static_cast<void>(co_await reader->Heartbeat(source, {5}, {}));
}

void FeedReader(const Bytes& bytes, size_t max_read) {
  rt::SimRuntime sim;
  sim.SetDefaultLink({std::chrono::microseconds(1), {}, 1e9, max_read});
  Metrics metrics;
  KvReader::Options options;
  options.identity = Identity();
  options.engine_id = "reader";
  options.fetch_arena = [](const std::string&, uint64_t, uint64_t) -> Result<Fd> {
    return Err(Code::kUnavailable, "no arena here");
  };
  sim.Spawn(BeOwner(&sim, bytes));
  sim.RunFor(std::chrono::milliseconds(1));
  KvReader reader(sim, options, metrics);
  CHECK(sim.RunTask(PullAndBeat(&sim, &reader)));
  CHECK(reader.pulls() == 0);
  CHECK(sim.RunTask(reader.Stop()));
  CHECK(reader.connections() == 0 && reader.mappings() == 0);
}

Welcome Greeting() {
  Welcome welcome;
  welcome.identity = Identity();
  welcome.engine_id = "owner";
  welcome.incarnation = kIncarnation;
  welcome.blocks = kBlocks;
  welcome.lease_ms = 30000;
  return welcome;
}

}  // namespace
}  // namespace tandem::xfer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::xfer;
  tandem::SetLogLevel(tandem::LogLevel::kOff);
  if (size == 0) return 0;
  const bool owner = (data[0] & 1) != 0;
  const bool greet = (data[0] & 2) != 0;
  const size_t max_read = data[0] >> 2;
  const auto bytes = std::as_bytes(std::span(data, size).subspan(1));
  DecodeAll(bytes);
  if (owner) {
    Hello hello;
    hello.identity = Identity();
    hello.engine_id = "reader";
    FeedOwner(Behind(Encode(hello), greet, bytes), max_read);
  } else {
    FeedReader(Behind(Encode(Greeting()), greet, bytes), max_read);
  }
  return 0;
}

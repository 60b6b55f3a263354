// The request plane over both runtimes, and its behaviour under faults in simulation.
#include <string>
#include <vector>

#include "net/rpc_client.h"
#include "net/rpc_frame.h"
#include "net/rpc_server.h"
#include "rt/event.h"
#include "rt/scope.h"
#include "rt/test_loops.h"

namespace tandem::net {
namespace {

using namespace std::string_view_literals;
using rt::Task;
using std::chrono::milliseconds;
using std::chrono::seconds;

Bytes BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}
std::string TextOf(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the handlers of a test have seen.
struct Seen {
  int cancelled = 0;
  Error reason;
  MonoTime deadline = kNever;  // of the latest call to "wait"
  int sent = 0;
};

Task<Status> Echo(RpcCall& call) { co_return co_await call.Send(call.payload()); }

Task<Status> Fail(RpcCall&) {
  co_return std::unexpected(Error{Code::kInvalidArgument, "no good", "top_p"});
}

// Sends as many items as the payload says, of 1000 bytes each.
Task<Status> Count(RpcCall& call, Seen* seen) {
  const int count = std::stoi(TextOf(call.payload()));
  for (int i = 0; i < count; ++i) {
    std::string item = std::to_string(i);
    item.resize(1000, ' ');
    const Status status = co_await call.Send(BytesOf(item));
    if (!status) {
      ++seen->cancelled;
      seen->reason = status.error();
      co_return status;
    }
    ++seen->sent;
  }
  co_return Status();
}

Task<Status> WaitForCancel(RpcCall& call, rt::Runtime* runtime, Seen* seen) {
  seen->deadline = call.deadline();
  CO_TRY(co_await call.Send(BytesOf(call.request_id())));
  const Status status = co_await runtime->Sleep(std::chrono::hours(10), call.token());
  ++seen->cancelled;
  seen->reason = status.error();
  co_return status;
}

struct Service {
  Service(rt::Runtime& on, const rt::Address& address, RpcOptions options = {})
      : server(on, *on.network().Listen(address), options) {
    server.Handle("echo", Echo);
    server.Handle("fail", Fail);
    server.Handle("count", [this](RpcCall& call) { return Count(call, &seen); });
    server.Handle("wait", [this, &on](RpcCall& call) { return WaitForCancel(call, &on, &seen); });
    server.Start();
  }
  Seen seen;
  RpcServer server;
};

const rt::Address kAddress{"127.0.0.1", 0};

class Rpc : public rt::LoopTest {};
TANDEM_BOTH_LOOPS(Rpc);

Task<void> CallEverything(rt::Runtime* runtime) {
  Service service(*runtime, kAddress);
  {
    RpcChannel channel(*runtime, service.server.address());
    const auto echoed = co_await channel.Call("echo", BytesOf("hello"));
    EXPECT_EQ(TextOf(echoed.value_or(Bytes())), "hello");
    const auto failed = co_await channel.Call("fail", {});
    EXPECT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kInvalidArgument);
    EXPECT_EQ(failed.error().message, "no good");
    EXPECT_EQ(failed.error().param, "top_p");
    const auto unknown = co_await channel.Call("unknown", {});
    EXPECT_EQ(unknown.error().code, Code::kNotFound);
    const auto large = co_await channel.Call("echo", Bytes(3 << 20));
    EXPECT_EQ(large.value_or(Bytes()).size(), 3u << 20);
    const auto too_large = co_await channel.Call("echo", Bytes(33 << 20));
    EXPECT_EQ(too_large.error().code, Code::kTooLarge);
    EXPECT_TRUE(channel.Connected());
    EXPECT_EQ(channel.open_streams(), 0u);
  }
  co_await service.server.Stop(seconds(1));
  EXPECT_EQ(service.server.open_connections(), 0u);
  EXPECT_EQ(service.server.open_streams(), 0u);
}

TEST_P(Rpc, UnaryCalls) { Run(CallEverything(&runtime())); }

Task<int> ReadCount(RpcStream* stream) {
  int next = 0;
  for (;;) {
    const auto item = co_await stream->Next();
    EXPECT_TRUE(item);
    if (!item || !*item) break;
    EXPECT_EQ(std::stoi(TextOf(**item)), next);
    ++next;
  }
  co_return next;
}

Task<void> ReadInto(RpcStream* stream, int* total) { *total += co_await ReadCount(stream); }

Task<void> StreamMuch(rt::Runtime* runtime) {
  Service service(*runtime, kAddress);
  RpcChannel channel(*runtime, service.server.address());
  rt::TaskScope readers(*runtime);
  std::vector<std::unique_ptr<RpcStream>> streams;
  int total = 0;
  for (int i = 0; i < 20; ++i) {
    streams.push_back(channel.Start("count", BytesOf("1000")));
    readers.Spawn(ReadInto(streams.back().get(), &total));
  }
  co_await readers.Join();
  EXPECT_EQ(total, 20000);
  EXPECT_EQ(service.server.open_connections(), 1u);
  EXPECT_EQ(service.server.open_streams(), 0u);
}

TEST_P(Rpc, ManyStreamsOnOneConnectionBeyondTheirWindows) { Run(StreamMuch(&runtime())); }

Task<void> CancelInThreeWays(rt::Runtime* runtime) {
  Service service(*runtime, kAddress);
  RpcChannel channel(*runtime, service.server.address());
  {
    const auto stream = channel.Start("wait", {}, {.request_id = "first"});
    const auto item = co_await stream->Next();
    EXPECT_TRUE(item && *item);
    EXPECT_EQ(TextOf(**item), "first");
    EXPECT_EQ(service.server.open_streams(), 1u);
  }
  rt::CancelSource source;
  const auto stream = channel.Start("wait", {}, {.cancel = source.Token()});
  EXPECT_TRUE(co_await stream->Next());
  source.Cancel({Code::kCancelled, "the client left", {}});
  const auto cancelled = co_await stream->Next();
  EXPECT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().message, "the client left");

  const MonoTime deadline = runtime->Now() + milliseconds(50);
  const auto late = channel.Start("wait", {}, {.deadline = deadline});
  EXPECT_TRUE(co_await late->Next());
  const auto expired = co_await late->Next();
  EXPECT_EQ(expired.error().code, Code::kDeadlineExceeded);
  // The server keeps the deadline by its own clock: the client may be the one that hangs.
  EXPECT_GT(service.seen.deadline, deadline - milliseconds(5));
  EXPECT_LT(service.seen.deadline, deadline + seconds(2));
  while (service.server.open_streams() > 0) co_await runtime->Sleep(milliseconds(1));
  EXPECT_EQ(service.seen.cancelled, 3);
  EXPECT_EQ(channel.open_streams(), 0u);

  rt::CancelSource fired;
  fired.Cancel();
  EXPECT_FALSE(co_await channel.Call("echo", {}, {.cancel = fired.Token()}));
}

TEST_P(Rpc, CancellationReachesTheHandler) { Run(CancelInThreeWays(&runtime())); }

Task<void> NobodyThere(rt::Runtime* runtime) {
  rt::Address address;
  {
    const Service service(*runtime, kAddress);
    address = service.server.address();
  }
  RpcChannel channel(*runtime, address);
  const auto refused = co_await channel.Call("echo", {});
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  // The same channel works once somebody listens.
  const Service service(*runtime, address);
  EXPECT_TRUE(co_await channel.Call("echo", BytesOf("x")));
}

TEST_P(Rpc, AChannelConnectsWhenItCan) { Run(NobodyThere(&runtime())); }

Task<void> StopDrains(rt::Runtime* runtime) {
  Service service(*runtime, kAddress);
  RpcChannel channel(*runtime, service.server.address());
  const auto waiting = channel.Start("wait", {});
  EXPECT_TRUE(co_await waiting->Next());
  rt::TaskScope scope(*runtime);
  scope.Spawn(service.server.Stop(milliseconds(50)));
  co_await runtime->Sleep(milliseconds(20));
  EXPECT_TRUE(channel.GoingAway());
  EXPECT_EQ((co_await channel.Call("echo", {})).error().code, Code::kUnavailable);
  const auto end = co_await waiting->Next();
  EXPECT_FALSE(end);
  EXPECT_EQ(end.error().code, Code::kCancelled) << end.error().message;
  co_await scope.Join();
  EXPECT_EQ(service.server.open_connections(), 0u);
  EXPECT_EQ(service.server.open_streams(), 0u);
}

TEST_P(Rpc, StopDrainsThenCancels) { Run(StopDrains(&runtime())); }

Task<void> TalkNonsense(rt::Runtime* runtime) {
  Service service(*runtime, kAddress);
  for (const std::string_view text :
       {"GET / HTTP/1.1\r\n\r\n"sv, "\xff\xff\xff\xff\x01\x00\x00\x00\x00"sv,
        "\x02\x00\x00\x00\x03\x01\x00\x00\x00hi data before the hello"sv}) {
    auto stream = co_await runtime->network().Connect(service.server.address(), seconds(1));
    EXPECT_TRUE(stream);
    EXPECT_TRUE(co_await (*stream)->Write(std::as_bytes(std::span(text))));
    std::vector<std::byte> buffer(1000);
    for (;;) {
      const auto count = co_await (*stream)->Read(buffer);
      if (!count || *count == 0) break;
    }
  }
  RpcChannel channel(*runtime, service.server.address());
  EXPECT_TRUE(co_await channel.Call("echo", BytesOf("x")));
  EXPECT_EQ(service.server.open_connections(), 1u);
}

TEST_P(Rpc, NonsenseBreaksOnlyItsOwnConnection) { Run(TalkNonsense(&runtime())); }

Task<void> OpenTooMany(rt::Runtime* runtime) {
  RpcOptions few;
  few.max_streams = 2;
  Service service(*runtime, kAddress, few);
  RpcChannel channel(*runtime, service.server.address());
  std::vector<std::unique_ptr<RpcStream>> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(channel.Start("wait", {}));
    EXPECT_TRUE(co_await open.back()->Next());
  }
  EXPECT_EQ((co_await channel.Call("echo", {})).error().code, Code::kOverloaded);
  open.clear();
  EXPECT_TRUE(co_await channel.Call("echo", {}));
}

TEST_P(Rpc, StreamsAreBounded) { Run(OpenTooMany(&runtime())); }

// In simulation: two hosts and a link that cuts bytes into small reads.
struct World {
  World() : server_host(sim.AddHost("server")), service(server_host, {"127.0.0.1", 9000}) {
    sim.SetDefaultLink({milliseconds(1), milliseconds(1), 1e8, 50});
    channel.emplace(sim, service.server.address());
  }
  rt::SimRuntime sim{3};
  rt::SimHost& server_host;
  Service service;
  std::optional<RpcChannel> channel;
};

Task<void> Collect(RpcStream* stream, int* items, std::optional<Error>* error) {
  for (;;) {
    const auto item = co_await stream->Next();
    if (!item) {
      *error = item.error();
      co_return;
    }
    if (!*item) co_return;
    ++*items;
  }
}

TEST(RpcFaults, ASlowReaderHoldsUpNobodyElseAndIsCutOffAfterThirtySeconds) {
  World world;
  const auto slow = world.channel->Start("count", BytesOf("1000000"));
  const auto quick = world.channel->Start("count", BytesOf("2000"));
  int items = 0;
  std::optional<Error> error;
  world.sim.Spawn(Collect(quick.get(), &items, &error));
  world.sim.RunFor(seconds(5));
  EXPECT_EQ(items, 2000);
  EXPECT_FALSE(error);
  // The slow stream's unread items stay within its window.
  EXPECT_LE(world.service.seen.sent, 2000 + 260);
  EXPECT_EQ(world.service.server.open_streams(), 1u);
  world.sim.RunFor(seconds(31));
  EXPECT_EQ(world.service.server.open_streams(), 0u);
  EXPECT_EQ(world.service.seen.reason.code, Code::kCancelled);
  items = 0;
  world.sim.Spawn(Collect(slow.get(), &items, &error));
  world.sim.RunFor(seconds(1));
  EXPECT_GT(items, 200);  // what had come is still there
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kCancelled) << error->message;
}

TEST(RpcFaults, AKilledServerEndsItsStreamsAtOnce) {
  World world;
  const auto stream = world.channel->Start("wait", {});
  int items = 0;
  std::optional<Error> error;
  world.sim.Spawn(Collect(stream.get(), &items, &error));
  world.sim.RunFor(milliseconds(100));
  EXPECT_EQ(items, 1);
  world.server_host.Kill();
  world.sim.RunFor(milliseconds(10));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kConnectionLost);
  EXPECT_EQ(world.channel->open_streams(), 0u);
}

TEST(RpcFaults, APartitionIsNoticedByBothSides) {
  World world;
  const auto stream = world.channel->Start("wait", {});
  int items = 0;
  std::optional<Error> error;
  world.sim.Spawn(Collect(stream.get(), &items, &error));
  world.sim.RunFor(milliseconds(100));
  world.sim.Partition("main", "server");
  world.sim.RunFor(seconds(3));
  EXPECT_FALSE(error);
  world.sim.RunFor(seconds(3));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kConnectionLost);
  EXPECT_EQ(world.service.seen.cancelled, 1);
  EXPECT_EQ(world.service.seen.reason.code, Code::kConnectionLost);
  EXPECT_EQ(world.service.server.open_connections(), 0u);
  world.sim.HealAll();
  const auto call = [](RpcChannel* channel) -> Task<void> {
    EXPECT_TRUE(co_await channel->Call("echo", BytesOf("again")));
  };
  EXPECT_TRUE(world.sim.RunTask(call(&*world.channel)));
}

TEST(RpcFaults, AnIdleConnectionStaysOpen) {
  World world;
  const auto call = [](RpcChannel* channel) -> Task<void> {
    EXPECT_TRUE(co_await channel->Call("echo", BytesOf("x")));
  };
  EXPECT_TRUE(world.sim.RunTask(call(&*world.channel)));
  world.sim.RunFor(seconds(60));
  EXPECT_TRUE(world.channel->Connected());
  EXPECT_EQ(world.service.server.open_connections(), 1u);
  world.channel.reset();
  world.sim.RunFor(seconds(1));
  EXPECT_EQ(world.service.server.open_connections(), 0u);
  EXPECT_EQ(world.sim.OpenConnections(), 0u);
}

Task<void> SpeakTheFuture(rt::Runtime* runtime, rt::Address address) {
  auto listener = runtime->network().Listen(address);
  auto stream = co_await (*listener)->Accept();
  Bytes hello;
  AppendHello(hello, 1000);
  // The value of "major" is the byte after its name.
  const std::string text = TextOf(hello);
  hello[text.find("major") + 5] = std::byte{9};
  EXPECT_TRUE(co_await (*stream)->Write(hello));
  std::vector<std::byte> buffer(1000);
  for (;;) {
    const auto count = co_await (*stream)->Read(buffer);
    if (!count || *count == 0) co_return;
  }
}

TEST(RpcFaults, AnotherMajorVersionIsRefusedWithBothVersions) {
  rt::SimRuntime sim;
  const rt::Address address{"127.0.0.1", 9001};
  sim.Spawn(SpeakTheFuture(&sim, address));
  const auto call = [](rt::Runtime* runtime, rt::Address to) -> Task<void> {
    co_await runtime->Sleep(milliseconds(1));
    RpcChannel channel(*runtime, to);
    const auto result = co_await channel.Call("echo", {});
    EXPECT_EQ(result.error().code, Code::kIncompatible);
    EXPECT_NE(result.error().message.find("9.0"), std::string::npos) << result.error().message;
  };
  EXPECT_TRUE(sim.RunTask(call(&sim, address)));
}

// Random kills, partitions and cancellations: every stream ends once, and nothing is left.
TEST(RpcFaults, RandomFaultsLeaveNothingBehind) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    rt::SimRuntime sim(seed);
    sim.SetDefaultLink({milliseconds(1), milliseconds(2), 1e7, 200});
    rt::SimHost* host = &sim.AddHost("server");
    const rt::Address address{"127.0.0.1", 9002};
    auto service = std::make_unique<Service>(*host, address);
    RpcChannel channel(sim, address);
    std::vector<std::unique_ptr<RpcStream>> streams;
    std::vector<std::unique_ptr<std::optional<Error>>> errors;
    std::vector<std::unique_ptr<int>> counts;
    size_t ended = 0;
    const auto watch = [](RpcStream* stream, int* count, std::optional<Error>* error,
                          size_t* done) -> Task<void> {
      co_await Collect(stream, count, error);
      ++*done;
    };
    for (int i = 0; i < 60; ++i) {
      RpcCallOptions options;
      options.deadline = sim.Now() + milliseconds(sim.Random() % 20000);
      streams.push_back(
          channel.Start("count", BytesOf(std::to_string(sim.Random() % 500)), std::move(options)));
      counts.push_back(std::make_unique<int>());
      errors.push_back(std::make_unique<std::optional<Error>>());
      sim.Spawn(watch(streams.back().get(), counts.back().get(), errors.back().get(), &ended));
      sim.RunFor(milliseconds(sim.Random() % 100));
      switch (sim.Random() % 10) {
        case 0:
          sim.Partition("main", "server");
          break;
        case 1:
          sim.HealAll();
          break;
        case 2:
          sim.ResetConnections("main", "server");
          break;
        case 3:
          host->Kill();
          service.reset();
          host = &sim.AddHost("server");
          service = std::make_unique<Service>(*host, address);
          break;
        case 4:
          streams[sim.Random() % streams.size()]->Cancel();
          break;
        default:
          break;
      }
    }
    sim.HealAll();
    sim.RunFor(seconds(60));
    EXPECT_EQ(ended, streams.size()) << seed;
    EXPECT_EQ(channel.open_streams(), 0u) << seed;
    EXPECT_EQ(service->server.open_streams(), 0u) << seed;
    EXPECT_LE(service->server.open_connections(), 1u) << seed;
  }
}

}  // namespace
}  // namespace tandem::net

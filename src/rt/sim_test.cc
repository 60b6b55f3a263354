// Faults and determinism of the simulated runtime.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/scope.h"
#include "rt/sim_runtime.h"
#include "rt/stream.h"

namespace tandem::rt {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Task<void> Serve(Runtime* runtime, Stream* stream) {
  std::vector<std::byte> buffer(4096);
  for (;;) {
    const auto count = co_await stream->Read(buffer);
    if (!count || *count == 0) co_return;
    co_await runtime->Sleep(microseconds(runtime->Random() % 100));
    if (!co_await stream->Write(std::span(buffer).first(*count))) co_return;
  }
}

Task<void> ServeOwned(Runtime* runtime, std::unique_ptr<Stream> stream) {
  co_await Serve(runtime, stream.get());
}

Task<void> AcceptLoop(Runtime* runtime, Address address) {
  auto listener = runtime->network().Listen(address);
  EXPECT_TRUE(listener);
  for (;;) {
    auto stream = co_await (*listener)->Accept();
    if (!stream) co_return;
    runtime->Spawn(ServeOwned(runtime, *std::move(stream)));
  }
}

// Talks to the server until `until`; counts round trips and remembers how it ended.
Task<void> Talk(Runtime* runtime, Address address, MonoTime until, int* trips, Error* error) {
  auto stream = co_await runtime->network().Connect(address, seconds(1));
  if (!stream) {
    *error = stream.error();
    co_return;
  }
  std::vector<std::byte> message(100);
  while (runtime->Now() < until) {
    Status sent = co_await (*stream)->Write(message);
    size_t have = 0;
    while (sent && have < message.size()) {
      const auto count = co_await (*stream)->Read(std::span(message).subspan(have));
      if (!count || *count == 0) {
        *error = count ? Error{Code::kConnectionLost, "end of stream", {}} : count.error();
        co_return;
      }
      have += *count;
    }
    if (!sent) {
      *error = sent.error();
      co_return;
    }
    ++*trips;
  }
  *error = {Code::kOk, {}, {}};
}

const Address kServer{"127.0.0.1", 9000};

struct World {
  explicit World(uint64_t seed) : sim(seed), server(sim.AddHost("server")) {
    sim.SetDefaultLink({microseconds(100), microseconds(50), 1e8, 64});
    server.Spawn(AcceptLoop(&server, kServer));
    sim.RunFor(milliseconds(1));
  }
  void StartClient(Duration length) {
    sim.Spawn(Talk(&sim, kServer, sim.Now() + length, &trips, &error));
  }
  SimRuntime sim;
  SimHost& server;
  int trips = 0;
  Error error{Code::kInternal, "still running", {}};
};

uint64_t HashOfARun(uint64_t seed) {
  World world(seed);
  for (int i = 0; i < 5; ++i) world.StartClient(milliseconds(20));
  world.sim.RunFor(milliseconds(10));
  world.sim.Partition("main", "server");
  world.sim.RunFor(milliseconds(5));
  world.sim.Heal("main", "server");
  world.sim.RunUntilIdle();
  EXPECT_EQ(world.error.code, Code::kOk);
  EXPECT_GT(world.trips, 50);
  return world.sim.TraceHash();
}

TEST(Sim, TheSameSeedGivesTheSameTrace) {
  EXPECT_EQ(HashOfARun(1), HashOfARun(1));
  EXPECT_NE(HashOfARun(1), HashOfARun(2));
}

TEST(Sim, APartitionHoldsBytesUpUntilItHeals) {
  World world(1);
  world.StartClient(seconds(2));
  world.sim.RunFor(milliseconds(100));
  world.sim.Partition("main", "server");
  world.sim.RunFor(milliseconds(10));
  const int before = world.trips;
  EXPECT_GT(before, 0);
  world.sim.RunFor(milliseconds(500));
  EXPECT_EQ(world.trips, before);
  world.sim.Heal("main", "server");
  EXPECT_TRUE(world.sim.RunUntil([&] { return world.error.code == Code::kOk; }));
  EXPECT_GT(world.trips, before);
}

TEST(Sim, AConnectAcrossAPartitionTimesOut) {
  World world(1);
  world.sim.Partition("main", "server");
  world.StartClient(seconds(1));
  world.sim.RunFor(milliseconds(1100));
  EXPECT_EQ(world.error.code, Code::kUnavailable);
}

TEST(Sim, AKilledProcessClosesItsConnectionsAndCanComeBack) {
  World world(1);
  world.StartClient(seconds(10));
  world.sim.RunFor(milliseconds(100));
  world.server.Kill();
  world.sim.RunFor(milliseconds(10));
  EXPECT_EQ(world.error.code, Code::kConnectionLost);
  world.StartClient(seconds(1));
  world.sim.RunFor(milliseconds(10));
  EXPECT_EQ(world.error.code, Code::kUnavailable);

  SimHost& again = world.sim.AddHost("server");
  again.Spawn(AcceptLoop(&again, kServer));
  world.sim.RunFor(milliseconds(1));
  world.StartClient(milliseconds(50));
  world.sim.RunFor(seconds(1));
  EXPECT_EQ(world.error.code, Code::kOk);
  EXPECT_EQ(world.sim.OpenConnections(), 0u);
}

TEST(Sim, AMachineWithoutPowerIsSilent) {
  World world(1);
  world.StartClient(seconds(10));
  world.sim.RunFor(milliseconds(100));
  world.server.Kill(KillMode::kMachine);
  world.sim.RunFor(seconds(20));
  EXPECT_EQ(world.error.message, "still running");
  world.StartClient(seconds(1));
  world.sim.RunFor(seconds(2));
  EXPECT_EQ(world.error.code, Code::kUnavailable);
}

TEST(Sim, AResetBreaksBothEnds) {
  World world(1);
  world.StartClient(seconds(10));
  world.sim.RunFor(milliseconds(100));
  world.sim.ResetConnections("main", "server");
  world.sim.RunFor(milliseconds(1));
  EXPECT_EQ(world.error.code, Code::kConnectionLost);
  EXPECT_EQ(world.sim.OpenConnections(), 0u);
}

Task<void> Tick(Runtime* runtime, int* ticks) {
  for (;;) {
    co_await runtime->Sleep(milliseconds(1));
    ++*ticks;
  }
}

TEST(Sim, AKilledHostRunsNothingMore) {
  SimRuntime sim;
  SimHost& host = sim.AddHost("host");
  int ticks = 0;
  host.Spawn(Tick(&host, &ticks));
  TaskScope scope(host);
  scope.Spawn(Tick(&host, &ticks));
  const auto timer = host.RunAt(host.Now() + seconds(1), [] { FAIL(); });
  sim.RunFor(microseconds(10500));
  EXPECT_EQ(ticks, 20);
  host.Post([] { FAIL(); });
  host.Kill();
  host.Post([] { FAIL(); });
  sim.RunFor(seconds(2));
  EXPECT_EQ(ticks, 20);
}

TEST(Sim, BandwidthAndLatencyTakeVirtualTime) {
  SimRuntime sim;
  sim.SetDefaultLink({milliseconds(10), {}, 1e6, 0});
  SimHost& server = sim.AddHost("server");
  server.Spawn(AcceptLoop(&server, kServer));
  sim.RunFor(milliseconds(1));
  const auto transfer = [](Runtime* runtime) -> Task<void> {
    auto stream = co_await runtime->network().Connect(kServer, seconds(1));
    EXPECT_TRUE(stream);
    const MonoTime start = runtime->Now();
    std::vector<std::byte> bytes(100000);
    EXPECT_TRUE(co_await (*stream)->Write(bytes));
    size_t have = 0;
    while (have < bytes.size()) have += (co_await (*stream)->Read(bytes)).value_or(1u << 30);
    const Duration took = runtime->Now() - start;
    EXPECT_GE(took, milliseconds(120));
    EXPECT_LE(took, milliseconds(260));
  };
  EXPECT_TRUE(sim.RunTask(transfer(&sim)));
}

}  // namespace
}  // namespace tandem::rt

// The request plane's parsers, its server and its client, fed with arbitrary bytes.
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "net/rpc_client.h"
#include "net/rpc_frame.h"
#include "net/rpc_server.h"
#include "rt/sim_runtime.h"

namespace tandem::net {
namespace {

const rt::Address kAddress{"127.0.0.1", 9000};

void ReadFrames(std::span<const std::byte> bytes) {
  FrameReader reader(1 << 16);
  size_t piece = 1;
  while (!bytes.empty()) {
    const auto space = reader.Space();
    const size_t count = std::min({piece, space.size(), bytes.size()});
    std::memcpy(space.data(), bytes.data(), count);
    reader.Commit(count);
    bytes = bytes.subspan(count);
    piece = piece * 3 % 1009;
    for (;;) {
      const auto frame = reader.Next();
      if (!frame) return;
      if (!frame->has_value()) break;
      const auto body = (*frame)->body;
      static_cast<void>(ParseHello(body));
      static_cast<void>(ParseOpen(body));
      static_cast<void>(ParseCredit(body));
      static_cast<void>(ParseEnd(body));
    }
  }
}

// A greeting, so that the bytes behind it are read as frames.
Bytes WithHello(std::span<const std::byte> bytes) {
  Bytes out;
  AppendHello(out, 1000);
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

rt::Task<void> WriteAndLeave(rt::Runtime* runtime, Bytes bytes) {
  auto stream = co_await runtime->network().Connect(kAddress, std::chrono::seconds(1));
  CHECK(stream);
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
}

rt::Task<Status> Echo(RpcCall& call) {
  CO_TRY(co_await call.Send(call.payload()));
  co_return co_await call.Send(call.payload());
}

void ServeBytes(std::span<const std::byte> bytes) {
  rt::SimRuntime sim;
  RpcServer server(sim, *sim.network().Listen(kAddress));
  server.Handle("e", Echo);
  server.Start();
  CHECK(sim.RunTask(WriteAndLeave(&sim, WithHello(bytes))));
  sim.RunFor(std::chrono::seconds(40));
  CHECK(server.open_connections() == 0 && server.open_streams() == 0);
}

rt::Task<void> AcceptAndWrite(rt::Runtime* runtime, Bytes bytes) {
  auto listener = runtime->network().Listen(kAddress);
  auto stream = co_await (*listener)->Accept();
  CHECK(stream);
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
}

rt::Task<void> ReadAnswer(RpcStream* stream) {
  for (;;) {
    const auto item = co_await stream->Next();
    if (!item || !*item) co_return;
  }
}

void AnswerWithBytes(std::span<const std::byte> bytes) {
  rt::SimRuntime sim;
  sim.Spawn(AcceptAndWrite(&sim, WithHello(bytes)));
  sim.RunFor(std::chrono::milliseconds(1));
  RpcChannel channel(sim, kAddress);
  const auto first = channel.Start("e", {});
  const auto second = channel.Start("e", {});
  CHECK(sim.RunTask(ReadAnswer(first.get())));
  CHECK(sim.RunTask(ReadAnswer(second.get())));
  CHECK(channel.open_streams() == 0);
}

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::SetLogLevel(tandem::LogLevel::kOff);
  const auto bytes = std::as_bytes(std::span(data, size));
  tandem::net::ReadFrames(bytes);
  tandem::net::ServeBytes(bytes);
  tandem::net::AnswerWithBytes(bytes);
  return 0;
}

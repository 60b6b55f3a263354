// Connections, on both runtimes.
#include "rt/stream.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "rt/event.h"
#include "rt/scope.h"
#include "rt/test_loops.h"

namespace tandem::rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Address, ParsesAndPrints) {
  for (const char* text :
       {"127.0.0.1:80", "[::1]:65535", "host.example:0", "unix:/tmp/x", "unix:@n"})
    EXPECT_EQ(Address::Parse(text).value_or(Address{}).ToString(), text);
  for (const char* text : {"", "host", "host:", ":1", "h:65536", "h:-1", "h:1x", "::1:80",
                           "[::1:80", "unix:", "unix:@"})
    EXPECT_FALSE(Address::Parse(text)) << text;
  EXPECT_FALSE(Address::Parse("unix:/" + std::string(107, 'x')));
}

class StreamLoop : public LoopTest {
 protected:
  std::unique_ptr<Listener> ListenAnywhere() {
    auto listener = runtime().network().Listen({"127.0.0.1", 0});
    EXPECT_TRUE(listener);
    return *std::move(listener);
  }
};
TANDEM_BOTH_LOOPS(StreamLoop);

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

Task<void> Echo(Listener* listener) {
  auto stream = co_await listener->Accept();
  EXPECT_TRUE(stream);
  std::vector<std::byte> buffer(1000);
  for (;;) {
    const auto count = co_await (*stream)->Read(buffer);
    EXPECT_TRUE(count);
    if (!count || *count == 0) co_return;
    EXPECT_TRUE(co_await (*stream)->Write(std::span(buffer).first(*count)));
  }
}

Task<void> WriteAll(Stream* stream, std::string text) {
  EXPECT_TRUE(co_await stream->Write(BytesOf(text)));
}

Task<std::string> ReadExactly(Stream* stream, size_t size) {
  std::string text(size, '\0');
  size_t have = 0;
  while (have < size) {
    const auto count = co_await stream->Read(std::as_writable_bytes(std::span(text)).subspan(have));
    EXPECT_TRUE(count);
    if (!count || *count == 0) break;
    have += *count;
  }
  text.resize(have);
  co_return text;
}

Task<void> SendMuch(Runtime* runtime, Listener* listener) {
  TaskScope scope(*runtime);
  scope.Spawn(Echo(listener));
  auto stream = co_await runtime->network().Connect(listener->LocalAddress(), seconds(1));
  EXPECT_TRUE(stream);
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i);
  scope.Spawn(WriteAll(stream->get(), text));
  EXPECT_TRUE(co_await ReadExactly(stream->get(), text.size()) == text);
  stream->reset();
  co_await scope.Join();
}

TEST_P(StreamLoop, BytesArriveInOrder) {
  const auto listener = ListenAnywhere();
  Run(SendMuch(&runtime(), listener.get()));
}

Task<void> ConnectNowhere(Runtime* runtime, Address address) {
  const auto stream = co_await runtime->network().Connect(address, seconds(5));
  EXPECT_FALSE(stream);
  if (!stream) EXPECT_EQ(stream.error().code, Code::kUnavailable) << stream.error().message;
}

TEST_P(StreamLoop, ARefusedConnectionIsUnavailable) {
  const Address address = ListenAnywhere()->LocalAddress();
  Run(ConnectNowhere(&runtime(), address));
}

Task<void> NoticePeer(Runtime* runtime, Listener* listener) {
  auto client = co_await runtime->network().Connect(listener->LocalAddress(), seconds(1));
  auto server = co_await listener->Accept();
  EXPECT_TRUE(client && server);
  int gone = 0;
  Event noticed(*runtime);
  const auto registration = (*server)->OnPeerGone([&] {
    ++gone;
    noticed.Set();
  });
  // Unread data must neither hide the end nor count as one.
  EXPECT_TRUE(co_await (*client)->Write(BytesOf("pipelined")));
  co_await runtime->Sleep(milliseconds(20));
  EXPECT_EQ(gone, 0);
  client->reset();
  EXPECT_TRUE(co_await noticed.Wait());
  EXPECT_EQ(co_await ReadExactly(server->get(), 9), "pipelined");
  std::byte one;
  const auto end = co_await (*server)->Read(std::span(&one, 1));
  EXPECT_TRUE(end && *end == 0);
  EXPECT_EQ(gone, 1);
}

Task<void> HalfClose(Runtime* runtime, Listener* listener) {
  auto client = co_await runtime->network().Connect(listener->LocalAddress(), seconds(1));
  auto server = co_await listener->Accept();
  EXPECT_TRUE(client && server);
  int ended = 0;
  Event broke(*runtime);
  const auto first = (*server)->OnPeerGone([&] { ++ended; });
  const auto second = (*server)->OnBroken([&] { broke.Set(); });
  EXPECT_TRUE(co_await (*client)->Write(BytesOf("question")));
  (*client)->EndWrites();
  EXPECT_EQ(co_await ReadExactly(server->get(), 8), "question");
  co_await runtime->Sleep(milliseconds(20));
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(broke.IsSet());
  EXPECT_TRUE(co_await (*server)->Write(BytesOf("answer")));
  EXPECT_EQ(co_await ReadExactly(client->get(), 6), "answer");
  // Closing the other half is not told; the next write is refused.
  client->reset();
  co_await runtime->Sleep(milliseconds(20));
  EXPECT_FALSE(broke.IsSet());
  EXPECT_TRUE(co_await (*server)->Write(BytesOf("more")));
  EXPECT_TRUE(co_await broke.Wait());
  EXPECT_EQ(ended, 1);
}

TEST_P(StreamLoop, AHalfClosedPeerStillReads) {
  const auto listener = ListenAnywhere();
  Run(HalfClose(&runtime(), listener.get()));
}

TEST_P(StreamLoop, AServerNoticesThatItsClientLeft) {
  const auto listener = ListenAnywhere();
  Run(NoticePeer(&runtime(), listener.get()));
}

Task<void> ReadUntilError(Stream* stream, Error* error, CancelToken cancel) {
  std::byte one;
  const auto result = co_await stream->Read(std::span(&one, 1), std::move(cancel));
  EXPECT_FALSE(result);
  if (!result) *error = result.error();
}

Task<void> EndReads(Runtime* runtime, Listener* listener) {
  auto client = co_await runtime->network().Connect(listener->LocalAddress(), seconds(1));
  auto server = co_await listener->Accept();
  EXPECT_TRUE(client && server);
  TaskScope scope(*runtime);
  CancelSource cancel;
  Error error;
  scope.Spawn(ReadUntilError(server->get(), &error, cancel.Token()));
  co_await runtime->Sleep(milliseconds(5));
  cancel.Cancel({Code::kDeadlineExceeded, "late", {}});
  co_await scope.Join();
  EXPECT_EQ(error.code, Code::kDeadlineExceeded);
  // A cancelled read loses nothing: the next one gets the bytes.
  EXPECT_TRUE(co_await (*client)->Write(BytesOf("x")));
  EXPECT_EQ(co_await ReadExactly(server->get(), 1), "x");
  scope.Spawn(ReadUntilError(server->get(), &error, {}));
  co_await runtime->Sleep(milliseconds(5));
  (*server)->Close();
  co_await scope.Join();
  EXPECT_EQ(error.code, Code::kConnectionLost);
}

TEST_P(StreamLoop, ReadsEndByCancellationAndByClose) {
  const auto listener = ListenAnywhere();
  Run(EndReads(&runtime(), listener.get()));
}

Task<void> AcceptCancelled(Runtime* runtime, Listener* listener) {
  CancelSource cancel;
  const auto timer =
      runtime->RunAt(runtime->Now() + milliseconds(5), [&cancel] { cancel.Cancel(); });
  EXPECT_FALSE(co_await listener->Accept(cancel.Token()));
  const auto closer =
      runtime->RunAt(runtime->Now() + milliseconds(5), [listener] { listener->Close(); });
  EXPECT_FALSE(co_await listener->Accept());
}

TEST_P(StreamLoop, AcceptEndsByCancellationAndByClose) {
  const auto listener = ListenAnywhere();
  Run(AcceptCancelled(&runtime(), listener.get()));
}

Task<void> WriteUntilFull(Stream* stream, CancelToken cancel, Error* error) {
  const std::vector<std::byte> block(1 << 20);
  for (;;) {
    const Status status = co_await stream->Write(block, cancel);
    if (status) continue;
    *error = status.error();
    co_return;
  }
}

Task<void> NobodyReads(Runtime* runtime, Listener* listener) {
  auto client = co_await runtime->network().Connect(listener->LocalAddress(), seconds(1));
  auto server = co_await listener->Accept();
  EXPECT_TRUE(client && server);
  CancelSource cancel;
  const auto timer = runtime->RunAt(runtime->Now() + milliseconds(50), [&cancel] {
    cancel.Cancel({Code::kDeadlineExceeded, "stalled", {}});
  });
  Error error;
  co_await WriteUntilFull(server->get(), cancel.Token(), &error);
  EXPECT_EQ(error.code, Code::kDeadlineExceeded);
}

TEST_P(StreamLoop, AWriterWaitsForItsReaderAndCanBeCancelled) {
  const auto listener = ListenAnywhere();
  Run(NobodyReads(&runtime(), listener.get()));
}

TEST_P(StreamLoop, UnixSockets) {
  const std::string name = "unix:@tandem-rt-test-" + std::to_string(getpid());
  auto listener = runtime().network().Listen({name, 0});
  ASSERT_TRUE(listener);
  EXPECT_EQ((*listener)->LocalAddress().ToString(), name);
  Run(SendMuch(&runtime(), listener->get()));
}

TEST(RealStream, AUnixSocketFileIsRemovedAndAStaleOneReplaced) {
  const std::string path = "/tmp/tandem-rt-test-" + std::to_string(getpid());
  RealRuntime runtime;
  {
    const auto listener = runtime.network().Listen({"unix:" + path, 0});
    ASSERT_TRUE(listener);
    EXPECT_FALSE(runtime.network().Listen({"unix:" + path, 0}));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(RealStream, NamesAreLookedUp) {
  RealRuntime runtime;
  const auto listener = runtime.network().Listen({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  const Address by_name{"localhost", (*listener)->LocalAddress().port};
  bool connected = false;
  const auto connect = [](Runtime* rt, Address address, bool* done) -> Task<void> {
    *done = (co_await rt->network().Connect(address, seconds(5))).has_value();
  };
  EXPECT_TRUE(runtime.RunTask(connect(&runtime, by_name, &connected)));
  EXPECT_TRUE(connected);
}

}  // namespace
}  // namespace tandem::rt

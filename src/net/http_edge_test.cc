// HTTP at its edges: heads without bodies, old versions, truncation, slow readers, shutdown.
#include <array>
#include <string>

#include "net/http_client.h"
#include "net/http_server.h"
#include "rt/scope.h"
#include "rt/test_loops.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using rt::Task;

Task<void> Handle(HttpRequest request, HttpResponder& responder) {
  if (request.path == "/stream") {
    static_cast<void>(co_await responder.StartStream(200, {{"content-type", "text/plain"}}));
    static_cast<void>(co_await responder.Write("one"));
    static_cast<void>(co_await responder.Write("two"));
    static_cast<void>(co_await responder.Finish());
  } else if (request.path == "/truncated") {
    static_cast<void>(co_await responder.StartStream(200, {}));
    static_cast<void>(co_await responder.Write("half"));
  } else if (request.path == "/inject") {
    static_cast<void>(co_await responder.Respond(200, {{"x", "a\r\nset-cookie: b"}}, "ok"));
  } else {
    static_cast<void>(co_await responder.Respond(200, {}, "hello"));
  }
}

Task<std::string> Exchange(rt::Runtime* runtime, rt::Address address, std::string bytes) {
  auto stream = co_await runtime->network().Connect(address, 5s);
  EXPECT_TRUE(stream);
  EXPECT_TRUE(co_await (*stream)->Write(std::as_bytes(std::span(bytes))));
  std::string all;
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const auto n = co_await (*stream)->Read(buffer);
    if (!n || *n == 0) break;
    all.append(reinterpret_cast<const char*>(buffer.data()), *n);
  }
  co_return all;
}

class HttpEdge : public rt::LoopTest {
 protected:
  HttpEdge() : server_(runtime(), *runtime().network().Listen({"127.0.0.1", 0}), Handle) {
    server_.Start();
  }
  std::string Ask(std::string bytes) {
    std::string answer;
    const auto ask = [](rt::Runtime* rt, rt::Address to, std::string text,
                        std::string* out) -> Task<void> {
      *out = co_await Exchange(rt, to, std::move(text));
    };
    Run(ask(&runtime(), server_.address(), std::move(bytes), &answer));
    return answer;
  }
  HttpServer server_;
};
TANDEM_BOTH_LOOPS(HttpEdge);

TEST_P(HttpEdge, HeadHasTheLengthButNoBody) {
  const std::string answer = Ask("HEAD / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
  EXPECT_NE(answer.find("content-length: 5\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_TRUE(
      Ask("HEAD /stream HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").ends_with("\r\n\r\n"));
}

TEST_P(HttpEdge, AnOldClientGetsAStreamWithoutChunks) {
  const std::string answer = Ask("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\nonetwo")) << answer;
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
}

TEST_P(HttpEdge, AnUnfinishedStreamIsVisiblyTruncated) {
  const std::string answer = Ask("GET /truncated HTTP/1.1\r\nhost: h\r\n\r\n");
  EXPECT_NE(answer.find("4\r\nhalf\r\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("\r\n0\r\n"), std::string::npos);
  const auto ask = [](rt::Runtime* rt, rt::Address to) -> Task<void> {
    HttpClient client(*rt, to);
    HttpClientRequest request;
    request.target = "/truncated";
    const auto result = co_await client.Send(std::move(request));
    EXPECT_FALSE(result);
    if (!result) EXPECT_EQ(result.error().code, Code::kConnectionLost) << result.error().message;
  };
  Run(ask(&runtime(), server_.address()));
}

TEST_P(HttpEdge, AHeaderValueCannotStartAnotherHeader) {
  const std::string answer = Ask("GET /inject HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
  EXPECT_EQ(answer.find("\nset-cookie"), std::string::npos) << answer;
}

TEST_P(HttpEdge, SmugglingAttemptsAreRefused) {
  for (const char* text :
       {"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nna me: x\r\n\r\n"})
    EXPECT_TRUE(Ask(text).starts_with("HTTP/1.1 400")) << text;
}

TEST_P(HttpEdge, AnythingButOneChunkedIsRefusedAndItsBodyIsNoRequest) {
  const auto ask = [this](std::string_view coding) {
    return Ask("POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: " + std::string(coding) +
               "\r\n\r\nGET / HTTP/1.1\r\nhost: h\r\n\r\n");
  };
  const auto expect = [&](std::string_view coding, std::string_view status) {
    const std::string answer = ask(coding);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::string(status))) << coding << "\n" << answer;
    EXPECT_NE(answer.find("connection: close"), std::string::npos) << coding;
    EXPECT_EQ(answer.find("hello"), std::string::npos) << coding;
  };
  for (const char* coding : {"xchunked", "gzip", "identity", "chunked, gzip", "chunked, identity",
                             "chunked,", "", "chunked, chunked", "chunked\r\ntransfer-encoding: x",
                             "chunked\r\ntransfer-encoding: chunked"})
    expect(coding, "400");
  expect("gzip, chunked", "501");
  EXPECT_TRUE(Ask("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
                  .starts_with("HTTP/1.1 400"));
}

TEST_P(HttpEdge, OneHostIsDemanded) {
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
                           "GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n"})
    EXPECT_TRUE(Ask(text).starts_with("HTTP/1.1 400")) << text;
  EXPECT_TRUE(Ask("GET / HTTP/1.0\r\n\r\n").ends_with("hello"));
}

TEST_P(HttpEdge, AbsoluteTargetsNameThePathBehindTheHost) {
  for (const char* target : {"http://h/stream", "HTTPS://h:1/stream", "http://h/stream?x=/y"}) {
    const std::string answer =
        Ask("GET " + std::string(target) + " HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    EXPECT_NE(answer.find("one"), std::string::npos) << target << "\n" << answer;
  }
  EXPECT_TRUE(
      Ask("GET http://h HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").ends_with("hello"));
}

TEST_P(HttpEdge, EncodedBodiesAreRefusedWithARemedy) {
  const std::string answer =
      Ask("POST / HTTP/1.1\r\nhost: h\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 415")) << answer;
  EXPECT_NE(answer.find("send it without one"), std::string::npos) << answer;
}

TEST_P(HttpEdge, AnOldClientIsToldWhetherTheConnectionStays) {
  const std::string answer =
      Ask("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /stream HTTP/1.0\r\nconnection: "
          "keep-alive\r\n\r\n");
  const size_t second = answer.rfind("HTTP/1.1 200");
  ASSERT_NE(second, 0u) << answer;
  EXPECT_NE(answer.substr(0, second).find("connection: keep-alive"), std::string::npos) << answer;
  // The end of an unchunked stream is the end of the connection.
  EXPECT_NE(answer.substr(second).find("connection: close"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("onetwo"));
}

TEST_P(HttpEdge, NobodyThereIsUnavailable) {
  const auto ask = [](rt::Runtime* rt) -> Task<void> {
    auto listener = rt->network().Listen({"127.0.0.1", 0});
    const rt::Address address = (*listener)->LocalAddress();
    listener->reset();
    HttpClient client(*rt, address);
    const auto result = co_await client.Send({});
    EXPECT_FALSE(result);
    if (!result) EXPECT_EQ(result.error().code, Code::kUnavailable);
  };
  Run(ask(&runtime()));
}

// What a client gets that ends its writing right after its request, and reads on.
class HttpHalfClosed : public rt::LoopTest {
 protected:
  HttpHalfClosed()
      : server_(runtime(), *runtime().network().Listen({"127.0.0.1", 0}),
                [this](HttpRequest request, HttpResponder& responder) {
                  return Answer(&runtime(), std::move(request), responder, takes_, &cancelled_);
                }) {
    server_.Start();
  }
  static Task<void> Answer(rt::Runtime* runtime, HttpRequest request, HttpResponder& responder,
                           Duration takes, bool* cancelled) {
    if (request.path == "/started") static_cast<void>(co_await responder.StartStream(200, {}));
    if (!co_await runtime->Sleep(takes, request.cancel)) {
      *cancelled = true;
    } else if (responder.Started()) {
      static_cast<void>(co_await responder.Finish());
    } else {
      static_cast<void>(co_await responder.Respond(200, {}, "late"));
    }
  }
  // `after`: from the request to the half-close. `reads`: how long it stays then.
  static Task<void> Ask(rt::Runtime* runtime, rt::Address to, std::string_view request,
                        Duration after, Duration reads, std::string* all) {
    auto stream = co_await runtime->network().Connect(to, 5s);
    EXPECT_TRUE(co_await (*stream)->Write(std::as_bytes(std::span(request))));
    co_await runtime->Sleep(after);
    (*stream)->EndWrites();
    rt::CancelSource leave;
    const auto timer = runtime->RunAt(runtime->Now() + reads, [&leave] { leave.Cancel(); });
    std::array<std::byte, 4096> buffer;
    for (;;) {
      const auto n = co_await (*stream)->Read(buffer, leave.Token());
      if (!n || *n == 0) break;
      all->append(reinterpret_cast<const char*>(buffer.data()), *n);
    }
    stream->reset();
    co_await runtime->Sleep(100ms);
  }
  std::string Got(std::string_view request, Duration after = 0ms, Duration reads = 5s) {
    std::string all;
    Run(Ask(&runtime(), server_.address(), request, after, reads, &all));
    return all;
  }
  Duration takes_ = 1200ms;
  bool cancelled_ = false;
  HttpServer server_;
};
TANDEM_BOTH_LOOPS(HttpHalfClosed);

TEST_P(HttpHalfClosed, GetsItsAnswer) {
  for (const auto after : {0ms, 50ms}) {
    const std::string answer = Got("GET / HTTP/1.1\r\nhost: h\r\n\r\n", after);
    // Asked at once and a second later whether it still reads.
    static constexpr std::string_view kAsked =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
    ASSERT_TRUE(answer.starts_with(kAsked)) << answer;
    EXPECT_TRUE(answer.substr(kAsked.size()).starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nlate")) << answer;
  }
  EXPECT_FALSE(cancelled_);
  EXPECT_EQ(server_.open_connections(), 0u);
}

TEST_P(HttpHalfClosed, GetsAllThatItAskedFor) {
  const std::string answer =
      Got("GET /1 HTTP/1.1\r\nhost: h\r\n\r\nGET /2 HTTP/1.1\r\nhost: h\r\n\r\n");
  const size_t first = answer.find("late");
  ASSERT_NE(first, std::string::npos) << answer;
  EXPECT_NE(answer.find("late", first + 4), std::string::npos) << answer;
}

TEST_P(HttpHalfClosed, IsNoticedWhenItLeavesAfterAll) {
  takes_ = 60s;
  Got("GET / HTTP/1.1\r\nhost: h\r\n\r\n", 0ms, 300ms);
  EXPECT_FALSE(cancelled_) << "it read when it was asked";
  Run([](rt::Runtime* runtime, const bool* until) -> Task<void> {
    for (int i = 0; i < 200 && !*until; ++i) co_await runtime->Sleep(10ms);
  }(&runtime(), &cancelled_));
  EXPECT_TRUE(cancelled_) << "within 2 s";
  EXPECT_EQ(server_.active_requests(), 0u);
}

TEST_P(HttpHalfClosed, CountsAsGoneWhereNothingCanBeAsked) {
  EXPECT_EQ(Got("GET / HTTP/1.0\r\n\r\n").find("late"), std::string::npos)
      << "an old client knows no interim answers";
  EXPECT_TRUE(cancelled_);
  cancelled_ = false;
  Got("GET /started HTTP/1.1\r\nhost: h\r\n\r\n", 50ms);
  EXPECT_TRUE(cancelled_) << "its answer had begun";
}

// In simulation: times and counts.
Task<void> Endless(HttpRequest, HttpResponder& responder, Status* end) {
  *end = co_await responder.StartStream(200, {});
  const std::string chunk(100000, 'x');
  while (*end) *end = co_await responder.Write(chunk);
}

TEST(HttpSim, AClientThatReadsNothingIsCutOff) {
  rt::SimRuntime sim;
  Status end;
  HttpServer server(sim, *sim.network().Listen({"127.0.0.1", 0}),
                    [&end](HttpRequest request, HttpResponder& responder) {
                      return Endless(std::move(request), responder, &end);
                    });
  server.Start();
  const auto ask = [](rt::Runtime* rt, rt::Address to) -> Task<void> {
    auto stream = co_await rt->network().Connect(to, 5s);
    static constexpr std::string_view kGet = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
    EXPECT_TRUE(co_await (*stream)->Write(std::as_bytes(std::span(kGet))));
    co_await rt->Sleep(60s);
  };
  sim.Spawn(ask(&sim, server.address()));
  sim.RunFor(29s);
  EXPECT_EQ(server.active_requests(), 1u);
  sim.RunFor(3s);
  EXPECT_FALSE(end);
  EXPECT_EQ(server.active_requests(), 0u);
  EXPECT_EQ(server.open_connections(), 0u);
}

Task<void> SlowAnswer(rt::Runtime* runtime, HttpRequest request, HttpResponder& responder,
                      int* cancelled) {
  if (!co_await runtime->Sleep(5s, request.cancel)) ++*cancelled;
  static_cast<void>(co_await responder.Respond(200, {}, "late"));
}

struct SlowServer {
  explicit SlowServer(HttpServerOptions options = {})
      : server(
            sim, *sim.network().Listen({"127.0.0.1", 0}),
            [this](HttpRequest request, HttpResponder& responder) {
              return SlowAnswer(&sim, std::move(request), responder, &cancelled);
            },
            options) {
    server.Start();
  }
  rt::SimRuntime sim;
  int cancelled = 0;
  HttpServer server;
};

Task<void> Get(rt::Runtime* runtime, rt::Address address, int* status) {
  HttpClient client(*runtime, address);
  const auto answer = co_await client.Send({});
  *status = answer ? answer->status : -1;
}

Task<void> StopServer(HttpServer* server, Duration drain, bool* stopped) {
  co_await server->Stop(drain);
  *stopped = true;
}

TEST(HttpSim, StopLetsRunningRequestsEnd) {
  SlowServer slow;
  int status = 0;
  bool stopped = false;
  slow.sim.Spawn(Get(&slow.sim, slow.server.address(), &status));
  slow.sim.RunFor(1s);
  slow.sim.Spawn(StopServer(&slow.server, 10s, &stopped));
  slow.sim.RunFor(1s);
  EXPECT_FALSE(stopped);
  slow.sim.RunFor(4s);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(status, 200);
  EXPECT_EQ(slow.cancelled, 0);
}

TEST(HttpSim, StopCancelsWhatDoesNotEndInTime) {
  SlowServer slow;
  int status = 0;
  bool stopped = false;
  slow.sim.Spawn(Get(&slow.sim, slow.server.address(), &status));
  slow.sim.RunFor(1s);
  slow.sim.Spawn(StopServer(&slow.server, 1s, &stopped));
  slow.sim.RunFor(2s);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(slow.cancelled, 1);
  EXPECT_EQ(slow.server.open_connections(), 0u);
  EXPECT_EQ(slow.server.active_requests(), 0u);
}

Task<void> Deaf(rt::Runtime* runtime, HttpRequest, HttpResponder&) {
  co_await runtime->Sleep(1000s);  // with no token
}

TEST(HttpSim, StopBreaksHandlersThatDoNotListen) {
  rt::SimRuntime sim;
  HttpServer server(sim, *sim.network().Listen({"127.0.0.1", 0}),
                    [&sim](HttpRequest request, HttpResponder& responder) {
                      return Deaf(&sim, std::move(request), responder);
                    });
  server.Start();
  int status = 0;
  bool stopped = false;
  sim.Spawn(Get(&sim, server.address(), &status));
  sim.RunFor(1s);
  EXPECT_EQ(server.active_requests(), 1u);
  sim.Spawn(StopServer(&server, 1s, &stopped));
  sim.RunFor(2900ms);
  EXPECT_FALSE(stopped);
  sim.RunFor(200ms);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(server.active_requests(), 0u);
  EXPECT_EQ(server.open_connections(), 0u);
  EXPECT_EQ(status, -1) << "the client sees the connection end";
}

TEST(HttpSim, ConnectionsAreBounded) {
  SlowServer slow({.max_connections = 2});
  int first = 0;
  int second = 0;
  int third = 0;
  slow.sim.Spawn(Get(&slow.sim, slow.server.address(), &first));
  slow.sim.Spawn(Get(&slow.sim, slow.server.address(), &second));
  slow.sim.RunFor(1s);
  slow.sim.Spawn(Get(&slow.sim, slow.server.address(), &third));
  slow.sim.RunFor(10s);
  EXPECT_EQ(first, 200);
  EXPECT_EQ(second, 200);
  EXPECT_EQ(third, 503);
}

TEST(HttpSim, ClientsThatVanishLeaveNothing) {
  SlowServer slow;
  rt::SimHost& host = slow.sim.AddHost("client");
  std::vector<int> statuses(50);
  for (int& status : statuses) host.Spawn(Get(&host, slow.server.address(), &status));
  slow.sim.RunFor(1s);
  EXPECT_EQ(slow.server.active_requests(), 50u);
  host.Kill();
  slow.sim.RunFor(100ms);
  EXPECT_EQ(slow.cancelled, 50);
  EXPECT_EQ(slow.server.active_requests(), 0u);
  EXPECT_EQ(slow.server.open_connections(), 0u);
  EXPECT_EQ(slow.sim.OpenConnections(), 0u);
}

}  // namespace
}  // namespace tandem::net

#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"
#include "rt/test_loops.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;

rt::Task<void> Echo(HttpRequest request, HttpResponder& out) {
  if (request.path == "/stream") {
    static_cast<void>(co_await out.StartStream(200, {{"content-type", "text/event-stream"}}));
    for (int i = 0; i < 3; ++i)
      static_cast<void>(co_await out.Write("piece" + std::to_string(i) + "\n"));
    static_cast<void>(co_await out.Finish());
  } else if (request.path != "/silent") {
    std::string body = request.method + " " + request.path + " " + request.query + " " +
                       std::string(request.headers.Find("X-Name").value_or("-")) + " " +
                       request.body;
    static_cast<void>(co_await out.Respond(200, {}, std::move(body)));
  }
}

class HttpTest : public rt::LoopTest {
 protected:
  void Serve(HttpHandler handler, HttpServerOptions options = {}) {
    auto listener = runtime().network().Listen({"127.0.0.1", 0});
    ASSERT_TRUE(listener) << listener.error().message;
    server_ =
        std::make_unique<HttpServer>(runtime(), *std::move(listener), std::move(handler), options);
    server_->Start();
  }
  // Sends raw bytes and reads until the server closes.
  rt::Task<std::string> Raw(std::string bytes) {
    auto stream = co_await runtime().network().Connect(server_->address(), 5s);
    EXPECT_TRUE(stream);
    if (!stream) co_return "";
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
  std::unique_ptr<HttpServer> server_;
};
TANDEM_BOTH_LOOPS(HttpTest);

TEST_P(HttpTest, AnswersAndKeepsTheConnection) {
  Serve(Echo);
  const auto body = [&]() -> rt::Task<void> {
    HttpClient client(runtime(), server_->address());
    for (int i = 0; i < 3; ++i) {
      HttpClientRequest request;
      request.method = "POST";
      request.target = "/a%20b?q=1";
      request.body = "hello";
      request.headers.Add("x-name", "n");
      const auto answer = co_await client.Send(std::move(request));
      EXPECT_TRUE(answer) << answer.error().message;
      if (answer) EXPECT_EQ(answer->body, "POST /a b q=1 n hello");
    }
    EXPECT_EQ(server_->open_connections(), 1u);
    co_await server_->Stop(1s);
    EXPECT_EQ(server_->open_connections(), 0u);
  };
  Run(body());
}

TEST_P(HttpTest, StreamsInPieces) {
  Serve(Echo);
  const auto body = [&]() -> rt::Task<void> {
    HttpClient client(runtime(), server_->address());
    std::string got;
    HttpClientRequest request;
    request.target = "/stream";
    request.on_body = [&](std::string_view piece) { got += piece; };
    const auto answer = co_await client.Send(std::move(request));
    EXPECT_TRUE(answer);
    EXPECT_EQ(got, "piece0\npiece1\npiece2\n");
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST_P(HttpTest, RefusesBadMessagesWithTheRightStatus) {
  Serve(Echo, {.max_header_bytes = 1024, .max_body_bytes = 100});
  const auto body = [&]() -> rt::Task<void> {
    const auto status = [&](std::string bytes) -> rt::Task<std::string> {
      const std::string all = co_await Raw(std::move(bytes));
      co_return all.substr(0, 12);
    };
    EXPECT_EQ(co_await status("nonsense\r\n\r\n"), "HTTP/1.1 400");
    EXPECT_EQ(co_await status("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 101\r\n\r\n"),
              "HTTP/1.1 413");
    std::string chunked = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
    for (int i = 0; i < 3; ++i) chunked += "30\r\n" + std::string(48, 'x') + "\r\n";
    EXPECT_EQ(co_await status(chunked), "HTTP/1.1 413");
    EXPECT_EQ(
        co_await status("GET / HTTP/1.1\r\nhost: h\r\nx: " + std::string(2000, 'y') + "\r\n\r\n"),
        "HTTP/1.1 431");
    EXPECT_EQ(co_await status("GET /silent HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"),
              "HTTP/1.1 500");
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST_P(HttpTest, ARefusalReachesAClientThatIsStillSending) {
  Serve(Echo, {.max_body_bytes = 1000});
  const auto body = [&]() -> rt::Task<void> {
    const std::string all =
        co_await Raw("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n" +
                     std::string(1000000, 'x'));
    EXPECT_TRUE(all.starts_with("HTTP/1.1 413")) << all.substr(0, 100);
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST_P(HttpTest, AnswersPipelinedRequestsInOrder) {
  Serve(Echo);
  const auto body = [&]() -> rt::Task<void> {
    const std::string all = co_await Raw(
        "GET /1 HTTP/1.1\r\nhost: h\r\n\r\nPOST /2 HTTP/1.1\r\nhost: h\r\ntransfer-encoding: "
        "chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    const size_t one = all.find("GET /1");
    const size_t two = all.find("POST /2  - abc");
    const size_t three = all.find("GET /3");
    EXPECT_NE(one, std::string::npos) << all;
    EXPECT_LT(one, two);
    EXPECT_LT(two, three);
    EXPECT_NE(three, std::string::npos) << all;
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST_P(HttpTest, ContinuesWhenAsked) {
  Serve(Echo);
  const auto body = [&]() -> rt::Task<void> {
    const std::string all = co_await Raw(
        "POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\nconnection: "
        "close\r\n\r\nhi");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")) << all;
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST_P(HttpTest, NoticesAClientThatLeavesWhileItComputes) {
  bool cancelled = false;
  Serve([&](HttpRequest request, HttpResponder&) -> rt::Task<void> {
    // Parameters live in the coroutine's frame, so the token outlives the wait.
    const Status slept = co_await runtime().Sleep(10s, request.cancel);
    cancelled = !slept;
  });
  const auto body = [&]() -> rt::Task<void> {
    {
      auto stream = co_await runtime().network().Connect(server_->address(), 5s);
      EXPECT_TRUE(stream);
      static constexpr std::string_view kGet = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
      EXPECT_TRUE(co_await (*stream)->Write(std::as_bytes(std::span(kGet))));
      static_cast<void>(co_await runtime().Sleep(50ms));
    }
    static_cast<void>(co_await runtime().Sleep(100ms));
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(server_->active_requests(), 0u);
    co_await server_->Stop(1s);
  };
  Run(body());
}

TEST(HttpTimeouts, SlowHeadersAndIdleConnectionsEnd) {
  rt::SimRuntime sim(3);
  auto listener = sim.network().Listen({"127.0.0.1", 0});
  HttpServer server(sim, *std::move(listener), Echo);
  server.Start();
  const auto body = [&]() -> rt::Task<void> {
    auto slow = co_await sim.network().Connect(server.address(), 5s);
    auto idle = co_await sim.network().Connect(server.address(), 5s);
    static constexpr std::string_view kPart = "GET / HTT";
    EXPECT_TRUE(co_await (*slow)->Write(std::as_bytes(std::span(kPart))));
    static_cast<void>(co_await sim.Sleep(11s));
    EXPECT_EQ(server.open_connections(), 1u);
    std::array<std::byte, 64> buffer;
    const auto n = co_await (*slow)->Read(buffer);
    EXPECT_TRUE(n);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(buffer.data()), 12), "HTTP/1.1 408");
    static_cast<void>(co_await sim.Sleep(70s));
    EXPECT_EQ(server.open_connections(), 0u);
    co_await server.Stop(1s);
  };
  ASSERT_TRUE(sim.RunTask(body()));
}

}  // namespace
}  // namespace tandem::net

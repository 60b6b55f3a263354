// The HTTP server and client, fed with arbitrary bytes in arbitrary pieces.
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "rt/sim_runtime.h"

namespace tandem::net {
namespace {

const rt::Address kAddress{"127.0.0.1", 9000};

rt::Task<void> Answer(HttpRequest request, HttpResponder& responder) {
  if (request.path.size() % 2 == 0) {
    static_cast<void>(co_await responder.Respond(200, {}, std::move(request.body)));
    co_return;
  }
  static_cast<void>(co_await responder.StartStream(200, {{"x", request.path}}));
  static_cast<void>(co_await responder.Write(request.query));
  static_cast<void>(co_await responder.Finish());
}

rt::Task<void> WriteAndLeave(rt::Runtime* runtime, std::vector<std::byte> bytes) {
  auto stream = co_await runtime->network().Connect(kAddress, std::chrono::seconds(1));
  CHECK(stream);
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
}

void ServeBytes(const std::vector<std::byte>& bytes, size_t max_read) {
  rt::SimRuntime sim;
  sim.SetDefaultLink({std::chrono::microseconds(1), {}, 1e9, max_read});
  HttpServerOptions options;
  options.max_header_bytes = 1024;
  options.max_body_bytes = 1024;
  HttpServer server(sim, *sim.network().Listen(kAddress), Answer, options);
  server.Start();
  CHECK(sim.RunTask(WriteAndLeave(&sim, bytes)));
  sim.RunFor(std::chrono::seconds(200));
  CHECK(server.open_connections() == 0 && server.active_requests() == 0);
}

rt::Task<void> AcceptAndWrite(rt::Runtime* runtime, std::vector<std::byte> bytes) {
  auto listener = runtime->network().Listen(kAddress);
  auto stream = co_await (*listener)->Accept();
  CHECK(stream);
  static_cast<void>(co_await (*stream)->Write(bytes));
  co_await runtime->Sleep(std::chrono::milliseconds(10));
}

rt::Task<void> Ask(rt::Runtime* runtime) {
  HttpClient client(*runtime, kAddress);
  HttpClientRequest request;
  request.max_body_bytes = 1024;
  request.deadline = runtime->Now() + std::chrono::seconds(1);
  const auto answer = co_await client.Send(std::move(request));
  if (answer) CHECK(answer->body.size() <= 1024);
}

void AnswerWithBytes(const std::vector<std::byte>& bytes, size_t max_read) {
  rt::SimRuntime sim;
  sim.SetDefaultLink({std::chrono::microseconds(1), {}, 1e9, max_read});
  sim.Spawn(AcceptAndWrite(&sim, bytes));
  sim.RunFor(std::chrono::milliseconds(1));
  CHECK(sim.RunTask(Ask(&sim)));
}

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::SetLogLevel(tandem::LogLevel::kOff);
  if (size == 0) return 0;
  const size_t max_read = data[0];
  const auto bytes = std::as_bytes(std::span(data, size).subspan(1));
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  tandem::net::ServeBytes(copy, max_read);
  tandem::net::AnswerWithBytes(copy, max_read);
  return 0;
}

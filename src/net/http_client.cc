#include "net/http_client.h"

#include <array>

#include "net/http_parser.h"

namespace tandem::net {

struct HttpClient::Impl {
  rt::Runtime& runtime;
  rt::Address address;
  std::unique_ptr<rt::Stream> idle;

  // Sends on `stream` and reads the answer. `reusable` tells whether another request may follow.
  rt::Task<Result<HttpResponse>> Exchange(rt::Stream& stream, const HttpClientRequest& request,
                                          rt::CancelToken cancel, bool& reusable, bool& got_bytes);
};

HttpClient::HttpClient(rt::Runtime& runtime, rt::Address address)
    : impl_(std::make_unique<Impl>(Impl{runtime, std::move(address), nullptr})) {}
HttpClient::~HttpClient() = default;

namespace {

std::string RequestBytes(const HttpClientRequest& request, const rt::Address& address) {
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\nhost: " +
                    (address.IsUnix() ? std::string("localhost") : address.ToString()) +
                    "\r\ncontent-length: " + std::to_string(request.body.size()) + "\r\n";
  for (const auto& [name, value] : request.headers.fields()) out += name + ": " + value + "\r\n";
  return out + "\r\n" + request.body;
}

}  // namespace

rt::Task<Result<HttpResponse>> HttpClient::Impl::Exchange(rt::Stream& stream,
                                                          const HttpClientRequest& request,
                                                          rt::CancelToken cancel, bool& reusable,
                                                          bool& got_bytes) {
  const std::string bytes = RequestBytes(request, address);
  CO_TRY(co_await stream.Write(std::as_bytes(std::span(bytes)), cancel));

  HttpParser parser(HttpMessageKind::kResponse, {.max_body_bytes = request.max_body_bytes});
  if (request.method == "HEAD") parser.ExpectNoBody();
  parser.PauseAfterHead();
  std::vector<std::byte> held;
  std::vector<std::byte> buffer(16u << 10);
  bool head_seen = false;
  while (!parser.Done()) {
    CO_TRY_ASSIGN(const size_t n, co_await stream.Read(buffer, cancel));
    if (n == 0) {
      if (head_seen) parser.FeedEnd();
      if (!parser.Done())
        co_return Err(Code::kConnectionLost,
                      "{} closed the connection before its answer was complete",
                      address.ToString());
      break;
    }
    got_bytes = true;
    held.insert(held.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(n));
    size_t used = parser.Feed(held);
    if (parser.HeadDone() && !head_seen) {
      head_seen = true;
      if (request.on_body && parser.status() >= 200 && parser.status() < 300)
        parser.StreamBodyTo(request.on_body);
      parser.ContinueWithBody();
      used += parser.Feed(std::span(held).subspan(used));
    }
    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(used));
    if (parser.failure().status != 0)
      co_return Err(Code::kCorrupt, "{} does not answer in HTTP: {}", address.ToString(),
                    parser.failure().message);
  }
  reusable = parser.KeepAlive() && held.empty();
  co_return HttpResponse{parser.status(), std::move(parser.headers()), std::move(parser.body())};
}

rt::Task<Result<HttpResponse>> HttpClient::Send(HttpClientRequest request) {
  Impl& impl = *impl_;
  rt::CancelSource source(request.cancel);
  std::unique_ptr<rt::Timer> timer;
  if (request.deadline != kNever)
    timer = impl.runtime.RunAt(request.deadline, [&source] {
      source.Cancel({Code::kDeadlineExceeded, "no complete answer in time", {}});
    });
  const rt::CancelToken cancel = source.Token();

  bool reusable = false;
  bool got_bytes = false;
  if (auto stream = std::exchange(impl.idle, nullptr)) {
    auto answer = co_await impl.Exchange(*stream, request, cancel, reusable, got_bytes);
    if (answer || got_bytes || cancel.Cancelled()) {
      if (answer && reusable) impl.idle = std::move(stream);
      co_return answer;
    }
    // The server had closed the idle connection; nothing of the request was answered: dial anew.
  }
  constexpr Duration kConnectTimeout = std::chrono::seconds(5);
  CO_TRY_ASSIGN(auto stream,
                co_await impl.runtime.network().Connect(impl.address, kConnectTimeout, cancel));
  auto answer = co_await impl.Exchange(*stream, request, cancel, reusable, got_bytes);
  if (answer && reusable) impl.idle = std::move(stream);
  co_return answer;
}

}  // namespace tandem::net

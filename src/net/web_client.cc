#include "net/web_client.h"

#include <utility>
#include <vector>

#include "net/blocking_stream.h"
#include "net/http_parser.h"

namespace tandem::net {
namespace {

std::string RequestBytes(const WebRequest& request) {
  std::string out = fmt::format(
      "{} {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept-encoding: identity\r\n",
      request.method, request.url.target, request.url.Authority());
  for (const auto& [name, value] : request.headers.fields())
    out += fmt::format("{}: {}\r\n", name, value);
  return out + "\r\n";
}

// The answer under way.
class Answer {
 public:
  explicit Answer(const WebRequest& request)
      : request_(request),
        parser_(HttpMessageKind::kResponse, {.max_body_bytes = request.max_body_bytes}) {
    if (request.method == "HEAD") parser_.ExpectNoBody();
    parser_.PauseAfterHead();
  }

  bool Done() const { return parser_.Done(); }

  Status Take(std::span<const std::byte> bytes) {
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    size_t used = parser_.Feed(held_);
    if (parser_.HeadDone() && !head_seen_) {
      head_seen_ = true;
      if (request_.on_head) TRY(request_.on_head(parser_.status(), parser_.headers()));
      if (request_.on_body && parser_.status() >= 200 && parser_.status() < 300)
        parser_.StreamBodyTo([this](std::string_view piece) {
          if (body_taken_) body_taken_ = request_.on_body(piece);
        });
      parser_.ContinueWithBody();
      used += parser_.Feed(std::span(held_).subspan(used));
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(used));
    TRY(body_taken_);
    if (parser_.failure().status != 0)
      return Err(Code::kCorrupt, "{} does not answer in HTTP as expected: {}",
                 request_.url.Authority(), parser_.failure().message);
    return {};
  }

  Status End() {
    if (head_seen_) parser_.FeedEnd();
    if (parser_.Done()) return {};
    return Err(Code::kConnectionLost, "{} closed the connection in the middle of its answer",
               request_.url.Authority());
  }

  HttpResponse Finish() {
    return {parser_.status(), std::move(parser_.headers()), std::move(parser_.body())};
  }

 private:
  const WebRequest& request_;
  HttpParser parser_;
  std::vector<std::byte> held_;
  bool head_seen_ = false;
  Status body_taken_;
};

}  // namespace

Result<HttpResponse> WebSend(const WebRequest& request) {
  TRY_ASSIGN(const auto stream, BlockingStream::Connect(request.url.host, request.url.port,
                                                        request.url.tls, request.connect_timeout));
  const std::string bytes = RequestBytes(request);
  TRY(stream->Write(std::as_bytes(std::span(bytes)), request.idle_timeout));
  Answer answer(request);
  std::vector<std::byte> buffer(64u << 10);
  while (!answer.Done()) {
    TRY_ASSIGN(const size_t n, stream->Read(buffer, request.idle_timeout));
    if (n == 0) {
      TRY(answer.End());
      break;
    }
    TRY(answer.Take(std::span(buffer).first(n)));
  }
  return answer.Finish();
}

}  // namespace tandem::net

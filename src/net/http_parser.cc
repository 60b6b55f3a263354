#include "net/http_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>

namespace tandem::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

std::string Copy(string_view text) { return {text.data(), text.size()}; }

// What both kinds of message collect.
struct Message {
  std::string method;
  std::string target;
  int status = 0;
  int version = 11;  // 10 or 11
  HttpHeaders headers;
  std::string body;
  std::function<void(std::string_view)> sink;
  bool pause_after_head = false;
};

template <bool kIsRequest>
class Parser final : public http::basic_parser<kIsRequest> {
 public:
  explicit Parser(Message& message) : message_(message) {}

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       ErrorCode&) override {
    message_.version = version;
    message_.method = Copy(method);
    message_.target = Copy(target);
  }
  void on_response_impl(int code, string_view, int version, ErrorCode&) override {
    message_.status = code;
    message_.version = version;
  }
  void on_field_impl(http::field, string_view name, string_view value, ErrorCode&) override {
    message_.headers.Add(Copy(name), Copy(value));
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode&) override {
    // The announced length is bounded by body_limit, but a client need not send what it announces.
    constexpr std::uint64_t kReserveAtMost = 1u << 20;
    if (length && !message_.sink) message_.body.reserve(std::min(*length, kReserveAtMost));
  }
  std::size_t on_body_impl(string_view piece, ErrorCode&) override { return Take(piece); }
  void on_chunk_header_impl(std::uint64_t, string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, ErrorCode&) override {
    return Take(piece);
  }
  void on_finish_impl(ErrorCode&) override {}

  std::size_t Take(string_view piece) {
    if (message_.sink) {
      message_.sink({piece.data(), piece.size()});
    } else {
      message_.body.append(piece.data(), piece.size());
    }
    return piece.size();
  }

  Message& message_;
};

HttpParser::Failure FailureOf(const ErrorCode& error, const HttpParserLimits& limits) {
  if (error == http::error::header_limit)
    return {431, "the request's headers are over " + std::to_string(limits.max_header_bytes) +
                     " bytes; send fewer or shorter ones"};
  if (error == http::error::body_limit)
    return {413, "the request's body is over the limit of " +
                     std::to_string(limits.max_body_bytes) + " bytes; send less"};
  return {400, "this is not a valid HTTP/1.1 message: " + error.message()};
}

}  // namespace

struct HttpParser::Impl {
  HttpParserLimits limits;
  Message message;
  std::optional<Parser<true>> request;
  std::optional<Parser<false>> response;
  Failure failure;

  template <class F>
  decltype(auto) With(F f) {
    if (request) return f(*request);
    return f(*response);
  }
};

HttpParser::HttpParser(HttpMessageKind kind, HttpParserLimits limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  if (kind == HttpMessageKind::kRequest) {
    impl_->request.emplace(impl_->message);
  } else {
    impl_->response.emplace(impl_->message);
  }
  constexpr size_t kUsualHeaders = 12;
  impl_->message.headers.Reserve(kUsualHeaders);
  impl_->With([&](auto& parser) {
    parser.header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
    parser.body_limit(limits.max_body_bytes);
    parser.eager(true);
  });
}

HttpParser::~HttpParser() = default;

size_t HttpParser::Feed(std::span<const std::byte> bytes) {
  size_t used = 0;
  // One put may stop at a boundary (end of the head, of a chunk); go on while it makes progress.
  while (used < bytes.size() && !Done() && impl_->failure.status == 0) {
    if (impl_->message.pause_after_head && HeadDone()) break;
    ErrorCode error;
    const size_t n = impl_->With([&](auto& parser) {
      return parser.put(boost::asio::buffer(bytes.data() + used, bytes.size() - used), error);
    });
    used += n;
    if (error == http::error::need_more) break;
    if (error) impl_->failure = FailureOf(error, impl_->limits);
    if (n == 0) break;
  }
  return used;
}

void HttpParser::FeedEnd() {
  ErrorCode error;
  impl_->With([&](auto& parser) { parser.put_eof(error); });
  if (error) impl_->failure = FailureOf(error, impl_->limits);
}

const HttpParser::Failure& HttpParser::failure() const { return impl_->failure; }
bool HttpParser::Started() const {
  return impl_->With([](auto& parser) { return parser.got_some(); });
}
bool HttpParser::HeadDone() const {
  return impl_->With([](auto& parser) { return parser.is_header_done(); });
}
bool HttpParser::Done() const {
  return impl_->With([](auto& parser) { return parser.is_done(); });
}

void HttpParser::ExpectNoBody() {
  impl_->With([](auto& parser) { parser.skip(true); });
}
void HttpParser::StreamBodyTo(std::function<void(std::string_view)> sink) {
  impl_->message.sink = std::move(sink);
}
void HttpParser::PauseAfterHead() {
  impl_->message.pause_after_head = true;
  impl_->With([](auto& parser) { parser.eager(false); });
}
void HttpParser::ContinueWithBody() {
  impl_->message.pause_after_head = false;
  impl_->With([](auto& parser) { parser.eager(true); });
}

const std::string& HttpParser::method() const { return impl_->message.method; }
const std::string& HttpParser::target() const { return impl_->message.target; }
int HttpParser::status() const { return impl_->message.status; }
HttpHeaders& HttpParser::headers() { return impl_->message.headers; }
bool HttpParser::KeepAlive() const {
  return impl_->With([](auto& parser) { return parser.keep_alive(); });
}
bool HttpParser::IsHttp11() const { return impl_->message.version >= 11; }
bool HttpParser::ExpectsContinue() const {
  const auto expect = impl_->message.headers.Find("expect");
  return expect && EqualsIgnoreCase(*expect, "100-continue");
}
std::string& HttpParser::body() { return impl_->message.body; }

}  // namespace tandem::net

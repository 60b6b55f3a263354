#include "net/http_server.h"

#include <array>
#include <list>

#include "base/check.h"
#include "base/log.h"
#include "net/http_parser.h"
#include "net/http_writer.h"
#include "net/request_head.h"
#include "rt/moving_timer.h"
#include "rt/scope.h"
#include "wire/json_writer.h"

namespace tandem::net {
namespace {

// An error of the server's own, in the shape that the API's errors have.
std::string ErrorBody(int status, std::string_view message) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(message);
  json.Key("type").String(status >= 500 ? "internal_error" : "invalid_request_error");
  json.Key("param").Null().Key("code").Int(status);
  json.EndObject().EndObject();
  return out;
}

// How long cancelled handlers may take to notice.
constexpr Duration kFarewell = std::chrono::seconds(2);

// A client that has ended its writing may be gone, or may still wait for its answer; only writing
// to it shows which, because the system of one that is gone answers with a reset. So it is sent
// interim answers. One that ends after its answer has begun counts as gone, as does an old client.
class EndedClient {
 public:
  EndedClient(rt::Runtime& runtime, HttpWriter& writer, std::function<void()> gone)
      : runtime_(runtime), writer_(writer), gone_(std::move(gone)) {}
  void OnEnd() {
    if (!Ask()) gone_();
  }

 private:
  bool Ask() {
    constexpr Duration kAgain = std::chrono::seconds(1);
    if (!writer_.Interim()) return false;
    timer_ = runtime_.RunAt(runtime_.Now() + kAgain, [this] { Ask(); });
    return true;
  }

  rt::Runtime& runtime_;
  HttpWriter& writer_;
  const std::function<void()> gone_;
  std::unique_ptr<rt::Timer> timer_;
};

// Also when the handler is destroyed.
class Counted {
 public:
  explicit Counted(size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  size_t& count_;
};

}  // namespace

struct HttpServer::Impl {
  // One client connection, from accept to close.
  struct Connection {
    Connection(rt::Runtime& runtime, std::unique_ptr<rt::Stream> s, const rt::CancelToken& server)
        : stream(std::move(s)),
          peer(stream->PeerName()),
          stop(server),
          reading(stop.Token()),
          timeout(runtime, [this] { reading.Cancel({Code::kDeadlineExceeded, "timed out", {}}); }) {
    }
    std::unique_ptr<rt::Stream> stream;
    const std::string peer;
    rt::CancelSource stop;     // closes the connection wherever it waits
    rt::CancelSource reading;  // what it waited for did not come in time
    rt::MovingTimer timeout;
    std::string doing;  // the latest request, for the log
    bool busy = false;  // between the first byte of a request and the end of its answer
    std::vector<std::byte> unparsed;  // bytes of the next request that came with this one
  };

  Impl(rt::Runtime& rt, std::unique_ptr<rt::Listener> l, HttpHandler h, HttpServerOptions o)
      : runtime(rt),
        listener(std::move(l)),
        handler(std::move(h)),
        options(o),
        quiet(rt),
        scope(rt) {}

  rt::Task<void> AcceptLoop();
  // Until no connection is left, or `most` has passed.
  rt::Task<void> AwaitEnds(Duration most);
  rt::Task<void> Serve(std::list<Connection>::iterator self);
  // Reads one request. False: the connection is to be closed (an error answer has been sent).
  rt::Task<bool> ReadRequest(Connection& c, HttpParser& parser);
  rt::Task<bool> Refuse(Connection& c, const HttpParser::Failure& failure);
  rt::Task<void> Discard(Connection& c);
  // Runs the handler. False: the connection is to be closed.
  rt::Task<bool> Answer(Connection& c, HttpParser& parser);

  rt::Runtime& runtime;
  std::unique_ptr<rt::Listener> listener;
  HttpHandler handler;
  const HttpServerOptions options;
  std::list<Connection> connections;
  size_t active = 0;
  bool stopping = false;
  rt::CancelSource drained;  // fires once running requests have had their time
  rt::WaitList quiet;        // woken when a connection ends or becomes idle
  rt::TaskScope scope;       // last: its tasks use everything above
};

HttpServer::HttpServer(rt::Runtime& runtime, std::unique_ptr<rt::Listener> listener,
                       HttpHandler handler, HttpServerOptions options)
    : impl_(std::make_unique<Impl>(runtime, std::move(listener), std::move(handler), options)) {}

HttpServer::~HttpServer() = default;

void HttpServer::Start() { impl_->scope.Spawn(impl_->AcceptLoop()); }

rt::Address HttpServer::address() const { return impl_->listener->LocalAddress(); }
size_t HttpServer::open_connections() const { return impl_->connections.size(); }
size_t HttpServer::active_requests() const { return impl_->active; }

rt::Task<void> HttpServer::Stop(Duration drain) {
  Impl& impl = *impl_;
  impl.stopping = true;
  impl.listener->Close();
  for (auto& c : impl.connections)
    if (!c.busy) c.stop.Cancel();
  co_await impl.AwaitEnds(drain);
  impl.drained.Cancel();
  for (auto& c : impl.connections) c.stop.Cancel();
  impl.scope.Cancel();
  co_await impl.AwaitEnds(kFarewell);
  for (const auto& c : impl.connections)
    LOG_WARN("{} from {} did not end within {} s of its cancellation; breaking it off", c.doing,
             c.peer, kFarewell / std::chrono::seconds(1));
  if (!impl.connections.empty()) impl.scope.Break();
  impl.connections.clear();
  co_await impl.scope.Join();
}

rt::Task<void> HttpServer::Impl::AwaitEnds(Duration most) {
  rt::CancelSource over;
  const auto timer = runtime.RunAt(runtime.Now() + most, [&over] { over.Cancel(); });
  while (!connections.empty()) {
    if (!co_await quiet.Wait(over.Token())) break;
  }
}

rt::Task<void> HttpServer::Impl::AcceptLoop() {
  while (!stopping) {
    auto accepted = co_await listener->Accept(scope.Token());
    if (!accepted) {
      if (stopping || scope.Token().Cancelled()) co_return;
      // Out of descriptors, most likely: waiting lets running requests give theirs back.
      LOG_WARN_ONCE("cannot accept a connection: {}; raise the limit of open files (ulimit -n)",
                    accepted.error().message);
      if (!co_await runtime.Sleep(std::chrono::milliseconds(20), scope.Token())) co_return;
      continue;
    }
    connections.emplace_back(runtime, *std::move(accepted), scope.Token());
    scope.Spawn(Serve(std::prev(connections.end())));
  }
}

rt::Task<void> HttpServer::Impl::Serve(std::list<Connection>::iterator self) {
  Connection& c = *self;
  if (connections.size() > options.max_connections) {
    co_await Refuse(c, {503, "too many open connections; try again later"});
  } else {
    bool more = true;
    while (more && !stopping && !c.stop.Token().Cancelled()) {
      HttpParser parser(HttpMessageKind::kRequest, {.max_header_bytes = options.max_header_bytes,
                                                    .max_body_bytes = options.max_body_bytes});
      parser.PauseAfterHead();
      more = co_await ReadRequest(c, parser) && co_await Answer(c, parser);
      c.busy = false;
    }
  }
  c.stream->Close();
  connections.erase(self);
  quiet.WakeAll();
}

rt::Task<bool> HttpServer::Impl::Refuse(Connection& c, const HttpParser::Failure& failure) {
  const HttpParser::Failure what = failure;  // outlives the caller's parser
  HttpWriter writer(scope, *c.stream, {.keep_alive = false, .write_timeout = options.write_timeout},
                    [] {});
  HttpHeaders headers = {{"content-type", "application/json"}};
  // A failed write only means that the client did not wait for the refusal.
  static_cast<void>(co_await writer.Respond(what.status, std::move(headers),
                                            ErrorBody(what.status, what.message)));
  co_await Discard(c);
  co_return false;
}

// Closing while bytes are unread resets the connection, which can take the refusal with it before
// the client has read it. So what is still coming is read for a moment.
rt::Task<void> HttpServer::Impl::Discard(Connection& c) {
  constexpr Duration kQuiet = std::chrono::milliseconds(200);
  const MonoTime give_up = runtime.Now() + std::chrono::seconds(2);
  std::vector<std::byte> buffer(16u << 10);
  while (runtime.Now() < give_up) {
    rt::CancelSource quiet_now(c.stop.Token());
    const auto timer = runtime.RunAt(runtime.Now() + kQuiet, [&quiet_now] { quiet_now.Cancel(); });
    const auto n = co_await c.stream->Read(buffer, quiet_now.Token());
    if (!n || *n == 0) co_return;
  }
}

rt::Task<bool> HttpServer::Impl::ReadRequest(Connection& c, HttpParser& parser) {
  // Idle connections hold only this; a request that needs more gets a buffer while it is read.
  std::array<std::byte, 512> small;
  std::vector<std::byte> large;
  constexpr size_t kLarge = 16u << 10;
  std::vector<std::byte> held = std::move(c.unparsed);  // bytes that the parser wants again
  c.unparsed.clear();

  const rt::CancelToken timeout = c.reading.Token();
  c.timeout.SetIn(held.empty() ? options.idle_timeout : options.header_timeout);
  bool body_phase = false;
  bool first = true;
  for (;;) {
    if (!held.empty() || !first) {
      size_t used = parser.Feed(held);
      if (parser.HeadDone() && !body_phase && parser.failure().status == 0) {
        body_phase = true;
        const auto refusal = CheckRequestHead(parser.headers(), parser.IsHttp11());
        if (refusal.status != 0) co_return co_await Refuse(c, refusal);
        c.timeout.SetIn(options.body_timeout);
        parser.ContinueWithBody();
        if (parser.ExpectsContinue()) {
          static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
          if (!co_await c.stream->Write(std::as_bytes(std::span(kContinue)), timeout))
            co_return false;
        }
        used += parser.Feed(std::span(held).subspan(used));
      }
      held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(used));
      if (parser.failure().status != 0) co_return co_await Refuse(c, parser.failure());
      if (parser.Done()) break;
    }
    std::span<std::byte> into = small;
    if (!first) {
      large.resize(kLarge);
      into = large;
    }
    const auto n = co_await c.stream->Read(into, timeout);
    if (!n && n.error().code == Code::kDeadlineExceeded && c.busy)
      co_return co_await Refuse(c, {408, "the request did not arrive in time"});
    if (!n || *n == 0) co_return false;
    if (!c.busy) {
      c.busy = true;
      c.timeout.SetIn(options.header_timeout);
    }
    first = false;
    held.insert(held.end(), into.begin(), into.begin() + static_cast<std::ptrdiff_t>(*n));
  }
  c.busy = true;
  c.timeout.Stop();
  c.unparsed = std::move(held);
  co_return true;
}

rt::Task<bool> HttpServer::Impl::Answer(Connection& c, HttpParser& parser) {
  HttpRequest request;
  request.method = parser.method();
  const std::string_view target = OriginForm(parser.target());
  const size_t question = target.find('?');
  request.path = PercentDecode(target.substr(0, question));
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  request.headers = std::move(parser.headers());
  request.body = std::move(parser.body());
  request.peer = c.peer;
  c.doing.assign(request.method).append(" ").append(request.path);

  rt::CancelSource gone(c.stop.Token());
  request.cancel = gone.Token();
  request.server_stops = drained.Token();
  const auto cancel = [&gone] {
    gone.Cancel({Code::kCancelled, "the client closed the connection", {}});
  };
  HttpWriter writer(scope, *c.stream,
                    {.head_only = request.method == "HEAD",
                     .http11 = parser.IsHttp11(),
                     .keep_alive = parser.KeepAlive() && !stopping,
                     .write_timeout = options.write_timeout},
                    cancel);
  EndedClient client(runtime, writer, cancel);
  const auto broken = c.stream->OnBroken(cancel);
  const auto ended = c.stream->OnPeerGone([&client] { client.OnEnd(); });
  {
    const Counted counted(active);
    co_await handler(std::move(request), writer);
  }
  if (!writer.Started()) {
    HttpHeaders headers = {{"content-type", "application/json"}};
    std::string body = ErrorBody(500, "the server gave no answer to this request");
    static_cast<void>(co_await writer.Respond(500, std::move(headers), std::move(body)));
  }
  if (!writer.Drained()) co_await writer.Drain();
  co_return writer.Finished() && writer.KeepAlive() && (parser.IsHttp11() || !stopping);
}

}  // namespace tandem::net

// HTTP/1.1 over rt::Stream: keep-alive, chunked bodies, streamed responses (SSE), limits and
// timeouts against hostile clients. Loop thread only.
#ifndef TANDEM_NET_HTTP_SERVER_H_
#define TANDEM_NET_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/http_message.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/stream.h"

namespace tandem::net {

struct HttpServerOptions {
  size_t max_header_bytes = 64u << 10;  // 431 beyond
  size_t max_body_bytes = 64u << 20;    // 413 beyond, before the body is read where it is announced
  size_t max_connections = 10000;       // 503 and close beyond
  Duration header_timeout = std::chrono::seconds(10);  // first byte to end of headers: 408
  Duration body_timeout = std::chrono::seconds(60);    // end of headers to end of body: 408
  Duration idle_timeout = std::chrono::seconds(75);    // between requests: closed
  Duration write_timeout = std::chrono::seconds(30);   // a client that reads nothing is cut off
};

struct HttpRequest {
  std::string method;  // "GET"; a HEAD request is handled like any other, its body is not sent
  std::string path;    // percent-decoded, without the query, e.g. "/v1/models"
  std::string query;   // as sent, without '?'
  HttpHeaders headers;
  std::string body;  // whole and decoded from chunks
  std::string peer;
  // Fires when the client disconnects (noticed also while nothing is written) or is cut off. A
  // client that only half-closed still gets its answer: see docs/http-api.md.
  rt::CancelToken cancel;
  // Fires before `cancel` when a stopping server's drain time is over: the client still waits, and
  // may be told so.
  rt::CancelToken server_stops;
};

// How a handler answers: Respond once, or StartStream, Write..., Finish. A failed Status means that
// the client is gone. A handler that returns without an answer is a 500; one that returns without
// Finish breaks the connection, so that the client sees the truncation.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  // Adds content-length, date and connection itself.
  virtual rt::Task<Status> Respond(int status, HttpHeaders headers, std::string body) = 0;
  // The head goes out with the first Write or with Finish or, at the latest, in the next turn.
  virtual rt::Task<Status> StartStream(int status, HttpHeaders headers) = 0;
  // Takes the bytes at once; waits only while much is unsent. Writes of one turn go out together.
  virtual rt::Task<Status> Write(std::string_view chunk) = 0;
  virtual rt::Task<Status> Finish() = 0;
  virtual bool Started() const = 0;  // a status line was chosen: too late for an error status
};

// The responder lives until the returned task has ended.
using HttpHandler = std::function<rt::Task<void>(HttpRequest, HttpResponder&)>;

class HttpServer {
 public:
  HttpServer(rt::Runtime& runtime, std::unique_ptr<rt::Listener> listener, HttpHandler handler,
             HttpServerOptions options = {});
  ~HttpServer();  // breaks what Stop has not ended

  void Start();
  // Accepts nothing more, closes idle connections, lets running requests end until `drain` has
  // passed, then cancels them. Handlers that have not ended 2 s later are destroyed where they
  // wait, and said in the log. Not from a handler.
  rt::Task<void> Stop(Duration drain);

  rt::Address address() const;
  size_t open_connections() const;
  size_t active_requests() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_HTTP_SERVER_H_

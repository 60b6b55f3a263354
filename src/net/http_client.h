// A small HTTP/1.1 client for the terminal chat, health checks and tests. Loop thread only.
#ifndef TANDEM_NET_HTTP_CLIENT_H_
#define TANDEM_NET_HTTP_CLIENT_H_

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

struct HttpClientRequest {
  std::string method = "GET";
  std::string target = "/";
  HttpHeaders headers{};  // host, content-length and connection are added
  std::string body{};
  MonoTime deadline = kNever;  // for all of it: kDeadlineExceeded
  rt::CancelToken cancel{};
  size_t max_body_bytes = 64u << 20;
  // If set, gets the decoded body piece by piece as it arrives, and HttpResponse::body stays empty
  // when the status is 2xx.
  std::function<void(std::string_view)> on_body{};
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers{};
  std::string body{};
};

// One address; keeps one idle connection for reuse. Concurrent Sends use one connection each.
class HttpClient {
 public:
  HttpClient(rt::Runtime& runtime, rt::Address address);
  ~HttpClient();
  // kUnavailable if it cannot connect, kConnectionLost if the answer breaks off, kCorrupt if it is
  // not HTTP. Any status is a success here.
  rt::Task<Result<HttpResponse>> Send(HttpClientRequest request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_HTTP_CLIENT_H_

// HTTP and HTTPS requests that block their thread: one connection for each. Follows no redirects.
#ifndef TANDEM_NET_WEB_CLIENT_H_
#define TANDEM_NET_WEB_CLIENT_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/http_client.h"
#include "net/http_message.h"
#include "net/url.h"

namespace tandem::net {

struct WebRequest {
  std::string method = "GET";  // GET or HEAD
  Url url{};
  HttpHeaders headers{};  // host, connection and accept-encoding are added
  Duration connect_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(30);  // without a byte
  size_t max_body_bytes = 64u << 20;
  // If set, looks at the head first; an error ends the request with it.
  std::function<Status(int status, const HttpHeaders& headers)> on_head{};
  // If set, gets the body of a 2xx answer piece by piece; an error ends the request with it.
  std::function<Status(std::string_view piece)> on_body{};
};

// Any status is a success here. kUnavailable, kDeadlineExceeded and kConnectionLost may pass with
// another attempt; kIncompatible (TLS) and kCorrupt (no HTTP) do not.
Result<HttpResponse> WebSend(const WebRequest& request);

}  // namespace tandem::net

#endif  // TANDEM_NET_WEB_CLIENT_H_

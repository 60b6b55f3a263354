// An incremental HTTP/1.1 parser for one message. Beast's parser does the grammar; this header
// keeps its headers out of everybody else's units.
#ifndef TANDEM_NET_HTTP_PARSER_H_
#define TANDEM_NET_HTTP_PARSER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace tandem::net {

struct HttpParserLimits {
  size_t max_header_bytes = 64u << 10;
  size_t max_body_bytes = 64u << 20;
};

enum class HttpMessageKind { kRequest, kResponse };

class HttpParser {
 public:
  HttpParser(HttpMessageKind kind, HttpParserLimits limits);
  ~HttpParser();

  // What is wrong with the message, as the status a server answers with; 0: nothing.
  struct Failure {
    int status = 0;
    std::string message;
  };

  // Takes bytes from the front of `bytes` and returns how many it used; the rest must be given
  // again with more behind it, or belongs to the next message. Sets failure().
  size_t Feed(std::span<const std::byte> bytes);
  // The peer has closed: completes a response whose body lasts until then.
  void FeedEnd();
  const Failure& failure() const;
  bool Started() const;   // at least one byte was taken
  bool HeadDone() const;  // start line and headers are complete
  bool Done() const;      // the whole message is complete

  // A response to HEAD has no body whatever its headers say. Before the first Feed.
  void ExpectNoBody();
  // Body bytes go to `sink` as they arrive instead of into body(). Set it once the head is done.
  void StreamBodyTo(std::function<void(std::string_view)> sink);
  // Stops in front of the body, so that the head can be looked at first. Before the first Feed.
  void PauseAfterHead();
  void ContinueWithBody();

  // Valid once HeadDone().
  const std::string& method() const;
  const std::string& target() const;
  int status() const;
  HttpHeaders& headers();
  bool KeepAlive() const;
  bool IsHttp11() const;
  bool ExpectsContinue() const;
  // Valid once Done().
  std::string& body();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_HTTP_PARSER_H_

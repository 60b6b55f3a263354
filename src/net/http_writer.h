// The answering half of a server connection: heads, chunks, and one flush for all that a turn
// wrote.
#ifndef TANDEM_NET_HTTP_WRITER_H_
#define TANDEM_NET_HTTP_WRITER_H_

#include <string>
#include <string_view>

#include "net/http_server.h"
#include "rt/scope.h"

namespace tandem::net {

// One response on one connection. `scope` outlives it and runs its flushes; `cut_off` is called
// when the client cannot be written to any more.
class HttpWriter final : public HttpResponder {
 public:
  struct Options {
    bool head_only = false;  // a HEAD request
    bool http11 = true;      // may use chunks
    bool keep_alive = true;
    Duration write_timeout;
  };
  HttpWriter(rt::TaskScope& scope, rt::Stream& stream, Options options,
             std::function<void()> cut_off);
  HttpWriter(const HttpWriter&) = delete;
  HttpWriter& operator=(const HttpWriter&) = delete;

  rt::Task<Status> Respond(int status, HttpHeaders headers, std::string body) override;
  rt::Task<Status> StartStream(int status, HttpHeaders headers) override;
  rt::Task<Status> Write(std::string_view chunk) override;
  rt::Task<Status> Finish() override;
  bool Started() const override { return started_; }

  // Sends an interim answer, which clients skip, for the connection's sake. False, and nothing is
  // sent, once the answer has begun, to old clients, which know none, and on broken connections.
  bool Interim();
  bool Finished() const { return finished_; }
  // Whether another request may follow on this connection.
  bool KeepAlive() const { return options_.keep_alive && !broken_; }
  bool Drained() const { return !flushing_; }
  // Waits until everything is sent or the connection is broken, and no flush runs any more.
  rt::Task<void> Drain();

 private:
  // `room`: bytes that will follow.
  void AppendHead(int status, const HttpHeaders& headers, std::string_view framing,
                  size_t room = 0);
  // Sends what the socket takes at once; a flush sends the rest.
  void FlushNow();
  void FlushSoon();
  void CutOff();
  rt::Task<void> Flush();
  Status Gone() const;

  rt::TaskScope& scope_;
  rt::Stream& stream_;
  Options options_;
  std::function<void()> cut_off_;
  std::string pending_;
  bool chunked_ = false;
  bool started_ = false;
  bool finished_ = false;
  bool flushing_ = false;
  bool broken_ = false;
  rt::WaitList progress_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_HTTP_WRITER_H_

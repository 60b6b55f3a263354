// Id, deadline and cancellation of one HTTP request, and how it is answered with an error.
#ifndef TANDEM_FRONTEND_REQUEST_CONTEXT_H_
#define TANDEM_FRONTEND_REQUEST_CONTEXT_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "frontend/services.h"
#include "net/http_server.h"
#include "rt/cancel.h"

namespace tandem::frontend {

class RequestContext {
 public:
  // `services` and `request` outlive the context. Starts the clock.
  RequestContext(Services& services, const net::HttpRequest& request);
  RequestContext(const RequestContext&) = delete;
  RequestContext& operator=(const RequestContext&) = delete;

  // Reads x-request-id and x-request-timeout-ms; an error names the header.
  Status ReadHeaders();
  // 400 unless the body is announced as JSON, or as nothing.
  Status CheckContentType() const;

  const std::string& id() const { return id_; }
  void SetId(std::string id) { id_ = std::move(id); }
  bool id_given() const { return id_given_; }
  MonoTime begin() const { return begin_; }
  MonoTime deadline() const { return deadline_; }
  // Fires when the client goes away, at the deadline, or when the server stops.
  rt::CancelToken token() const { return cancel_.Token(); }
  // False when the server stops: then the client still waits.
  bool ClientGone() const { return request_.cancel.Cancelled() && !Stopping(); }
  // The error as the client should see it.
  Error ForClient(Error error) const;

  net::HttpHeaders Headers(std::string content_type) const;
  // Answers with the error, as the status it deserves.
  rt::Task<Status> RespondError(net::HttpResponder& responder, Error error) const;
  rt::Task<Status> RespondJson(net::HttpResponder& responder, std::string body) const;

 private:
  bool Stopping() const { return request_.server_stops.Cancelled(); }

  Services& services_;
  const net::HttpRequest& request_;
  const MonoTime begin_;
  MonoTime deadline_;
  std::string id_;
  bool id_given_ = false;
  rt::CancelSource cancel_;
  std::unique_ptr<rt::Timer> timer_;
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_REQUEST_CONTEXT_H_

// The serving side of the request plane: accepts connections and runs a handler for each stream
// that a client opens. Loop thread only.
#ifndef TANDEM_NET_RPC_SERVER_H_
#define TANDEM_NET_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/rpc_options.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/stream.h"

namespace tandem::net {

// One request, as its handler sees it. Lives until the handler's task has ended.
class RpcCall {
 public:
  virtual ~RpcCall() = default;
  virtual const std::string& method() const = 0;
  virtual const Bytes& payload() const = 0;
  virtual const std::string& request_id() const = 0;  // "" if the client gave none
  virtual MonoTime deadline() const = 0;              // kNever if the client set none
  virtual const std::string& peer() const = 0;        // for logs
  // Fires when the client cancels, the deadline passes, the connection is lost, the client has
  // not read for RpcOptions::stall_timeout, or the server stops.
  virtual const rt::CancelToken& token() const = 0;
  // Sends one item. Waits while the client has not read what it was sent (credit). Fails with the
  // token's reason once that has fired.
  virtual rt::Task<Status> Send(Bytes item) = 0;
};

// The returned Status ends the stream and reaches the client as it is.
using RpcHandler = std::function<rt::Task<Status>(RpcCall&)>;

class RpcServer {
 public:
  struct Impl;  // opaque
  RpcServer(rt::Runtime& runtime, std::unique_ptr<rt::Listener> listener, RpcOptions options = {});
  ~RpcServer();  // breaks what Stop has not ended

  // Before Start. The handler is kept until the server is destroyed.
  void Handle(std::string method, RpcHandler handler);
  void Start();
  // Accepts nothing more, tells clients to go elsewhere (goaway), lets running calls end until
  // `drain` has passed, then cancels them and closes.
  rt::Task<void> Stop(Duration drain);

  rt::Address address() const;
  size_t open_connections() const;
  size_t open_streams() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_RPC_SERVER_H_

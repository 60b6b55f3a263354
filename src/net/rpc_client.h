// The calling side of the request plane: one address, one connection at a time, many streams on it.
// Loop thread only.
#ifndef TANDEM_NET_RPC_CLIENT_H_
#define TANDEM_NET_RPC_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/rpc_options.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/stream.h"

namespace tandem::net {

struct RpcCallOptions {
  MonoTime deadline = kNever;  // the stream ends with kDeadlineExceeded here, on both sides
  rt::CancelToken cancel{};    // the stream ends with its reason, and the server is told
  std::string request_id{};
};

// The answer to one request. Destroying it before its end cancels the request on the server.
class RpcStream {
 public:
  virtual ~RpcStream() = default;
  // The next item; nullopt after a good end. The error is the handler's, or kUnavailable (could
  // not connect: the request was not sent), kConnectionLost, kDeadlineExceeded, the cancel reason.
  // After an end it answers the same again. One Next at a time.
  virtual rt::Task<Result<std::optional<Bytes>>> Next() = 0;
  // Ends it now: a waiting Next fails with kCancelled.
  virtual void Cancel() = 0;
};

class RpcChannel {
 public:
  struct Impl;  // opaque
  // Connects on first use, and again on the first use after the connection was lost.
  RpcChannel(rt::Runtime& runtime, rt::Address address, RpcOptions options = {});
  ~RpcChannel();  // streams that are left end with kConnectionLost and may outlive the channel

  std::unique_ptr<RpcStream> Start(std::string_view method, Bytes payload,
                                   RpcCallOptions options = {});
  // For methods that answer with exactly one item.
  rt::Task<Result<Bytes>> Call(std::string method, Bytes payload, RpcCallOptions options = {});

  const rt::Address& address() const;
  bool Connected() const;
  // The server said that it is going away; new streams on this connection are refused.
  bool GoingAway() const;
  size_t open_streams() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_RPC_CLIENT_H_

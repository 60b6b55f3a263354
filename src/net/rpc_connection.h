// Internal to net: one connection of the request plane, the same for both sides: framing, the
// hello, coalesced writing, keepalive. Streams and their credit belong to the sides.
#ifndef TANDEM_NET_RPC_CONNECTION_H_
#define TANDEM_NET_RPC_CONNECTION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/rpc_frame.h"
#include "net/rpc_options.h"
#include "rt/event.h"
#include "rt/scope.h"
#include "rt/stream.h"

namespace tandem::net {

class RpcConnection {
 public:
  // What a side does with the connection. Must outlive it.
  class Side {
   public:
    virtual ~Side() = default;
    // The peer's hello, once, before any frame.
    virtual void OnHello(const HelloFrame& hello) = 0;
    // A frame about a stream, or kGoAway. An error breaks the connection.
    virtual Status OnFrame(const Frame& frame) = 0;
    // Queued bytes fell below the mark after HasRoom had said no.
    virtual void OnRoom() = 0;
  };

  RpcConnection(rt::Runtime& runtime, std::unique_ptr<rt::Stream> stream, const RpcOptions& options,
                Side& side);

  // Reads until the connection ends and says why. Destroy the connection only afterwards, or
  // together with the task that awaits this.
  rt::Task<Error> Run();
  // Ends it; Run returns `reason` in a later turn.
  void Close(Error reason);

  // Frames appended to it go out together in the next turn; call Flush after appending.
  std::vector<std::byte>& out() { return out_; }
  void Flush();
  // False while much is waiting for the socket. Streams hold data back then.
  bool HasRoom();
  size_t queued_bytes() const { return out_.size() + writing_.size(); }
  // Waits until all has been written or the connection has ended.
  rt::Task<void> Drain();
  std::string PeerName() const { return stream_->PeerName(); }
  bool closed() const { return closed_; }

 private:
  rt::Task<void> WriteLoop();
  rt::Task<void> KeepAlive();
  Status Dispatch(const Frame& frame);

  rt::Runtime& runtime_;
  std::unique_ptr<rt::Stream> stream_;
  const RpcOptions options_;
  Side& side_;
  FrameReader reader_;
  bool hello_seen_ = false;
  bool closed_ = false;
  Error reason_;
  bool heard_ = true;  // since the last tick of KeepAlive
  std::vector<std::byte> out_;
  std::vector<std::byte> writing_;
  bool wants_room_ = false;
  rt::Signal work_;
  rt::WaitList written_;
  rt::TaskScope tasks_;  // last: ends before what its tasks use
};

}  // namespace tandem::net

#endif  // TANDEM_NET_RPC_CONNECTION_H_

#include "net/rpc_server.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/rpc_connection.h"
#include "rt/event.h"
#include "rt/scope.h"

namespace tandem::net {
namespace {

constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);
constexpr Duration kFarewell = std::chrono::milliseconds(500);  // to flush the last frames

class ServerConnection;

// One stream on the serving side. Owned by its handler's task, known to its connection while both
// live.
class ServerCall final : public RpcCall {
 public:
  ServerCall(rt::Runtime& runtime, ServerConnection& connection, uint32_t stream,
             const OpenFrame& open, int64_t credit, Duration stall_timeout);
  ~ServerCall() override;

  const std::string& method() const override { return method_; }
  const Bytes& payload() const override { return payload_; }
  const std::string& request_id() const override { return request_id_; }
  MonoTime deadline() const override { return deadline_; }
  const std::string& peer() const override;
  const rt::CancelToken& token() const override { return token_; }
  rt::Task<Status> Send(Bytes item) override;

  void AddCredit(uint32_t bytes);
  void Wake() { wake_.WakeAll(); }
  void Cancel(Error reason) { cancel_.Cancel(std::move(reason)); }
  void ConnectionLost(const Error& reason);
  // The client has forgotten the stream: nothing more is sent on it.
  void Detach() { connection_ = nullptr; }
  // Reports the handler's status, if anybody still listens.
  void Finish(const Status& status);

 private:
  void WatchForStall();

  rt::Runtime& runtime_;
  ServerConnection* connection_;
  const uint32_t stream_;
  const std::string method_;
  const std::string request_id_;
  const Bytes payload_;
  std::string peer_;
  MonoTime deadline_ = kNever;
  rt::CancelSource cancel_;
  rt::CancelToken token_;
  int64_t credit_;
  const Duration stall_timeout_;
  rt::WaitList wake_;
  std::unique_ptr<rt::Timer> deadline_timer_;
  std::unique_ptr<rt::Timer> stall_timer_;
};

}  // namespace

struct RpcServer::Impl {
  Impl(rt::Runtime& rt, std::unique_ptr<rt::Listener> l, const RpcOptions& o)
      : runtime(rt),
        listener(std::move(l)),
        options(o),
        changed(rt),
        calls(rt),
        connection_tasks(rt),
        accepting(rt) {}

  rt::Task<void> AcceptLoop();
  rt::Task<void> ServeConnection(std::unique_ptr<rt::Stream> stream);
  rt::Task<void> RunCall(std::unique_ptr<ServerCall> call, const RpcHandler* handler);
  rt::Task<void> WaitForCalls(Duration limit);
  rt::Task<void> Stop(Duration drain);

  rt::Runtime& runtime;
  std::unique_ptr<rt::Listener> listener;
  const RpcOptions options;
  std::map<std::string, RpcHandler, std::less<>> handlers;
  bool stopping = false;
  uint64_t next_connection = 1;
  std::map<uint64_t, ServerConnection*> connections;
  size_t open_streams = 0;
  rt::WaitList changed;  // a call or a connection has ended
  // Destroyed in reverse: connections let go of their calls before those end.
  rt::TaskScope calls;
  rt::TaskScope connection_tasks;
  rt::TaskScope accepting;
};

namespace {

class ServerConnection final : public RpcConnection::Side {
 public:
  ServerConnection(RpcServer::Impl& server, std::unique_ptr<rt::Stream> stream)
      : server_(server),
        peer_(stream->PeerName()),
        connection_(server.runtime, std::move(stream), server.options, *this) {}
  ~ServerConnection() override {
    // Also when the task was destroyed in mid-flight: no call may keep a pointer to us.
    LoseCalls({Code::kConnectionLost, "the server has stopped", {}});
  }

  RpcConnection& connection() { return connection_; }
  const std::string& peer() const { return peer_; }

  void OnHello(const HelloFrame& hello) override { window_ = hello.window; }
  Status OnFrame(const Frame& frame) override;
  void OnRoom() override {
    for (const auto& [id, call] : calls_) call->Wake();
  }

  void LoseCalls(const Error& reason);
  void CancelCalls(const Error& reason);
  void Forget(uint32_t stream) { calls_.erase(stream); }

 private:
  Status OnOpen(const Frame& frame);
  void Refuse(uint32_t stream, const Error& error);

  RpcServer::Impl& server_;
  const std::string peer_;
  int64_t window_ = 0;
  uint32_t last_stream_ = 0;
  std::map<uint32_t, ServerCall*> calls_;
  RpcConnection connection_;
};

Status ServerConnection::OnFrame(const Frame& frame) {
  if (frame.type == FrameType::kOpen) return OnOpen(frame);
  // Frames for streams that have just ended cross with our end frame: ignored.
  const auto found = calls_.find(frame.stream);
  if (found == calls_.end()) return Status();
  if (frame.type == FrameType::kCredit) {
    TRY_ASSIGN(const uint32_t bytes, ParseCredit(frame.body));
    found->second->AddCredit(bytes);
  } else if (frame.type == FrameType::kCancel) {
    ServerCall* const call = found->second;
    calls_.erase(found);
    call->Detach();
    call->Cancel({Code::kCancelled, "the caller cancelled the request", {}});
  }
  return Status();
}

Status ServerConnection::OnOpen(const Frame& frame) {
  if (frame.stream <= last_stream_)
    return Err(Code::kCorrupt, "stream {} was opened after stream {}", frame.stream, last_stream_);
  last_stream_ = frame.stream;
  TRY_ASSIGN(const OpenFrame open, ParseOpen(frame.body));
  if (server_.stopping) {
    Refuse(frame.stream, {Code::kUnavailable, "the server is shutting down", {}});
    return Status();
  }
  if (calls_.size() >= server_.options.max_streams) {
    Refuse(frame.stream,
           {Code::kOverloaded,
            fmt::format("{} requests are open on this connection; try later", calls_.size()),
            {}});
    return Status();
  }
  const auto handler = server_.handlers.find(open.method);
  if (handler == server_.handlers.end()) {
    Refuse(frame.stream,
           {Code::kNotFound, fmt::format("method '{}' is not served here", open.method), {}});
    return Status();
  }
  auto call = std::make_unique<ServerCall>(server_.runtime, *this, frame.stream, open, window_,
                                           server_.options.stall_timeout);
  calls_.emplace(frame.stream, call.get());
  ++server_.open_streams;
  server_.calls.Spawn(server_.RunCall(std::move(call), &handler->second));
  return Status();
}

void ServerConnection::Refuse(uint32_t stream, const Error& error) {
  AppendEnd(connection_.out(), stream, std::unexpected(error));
  connection_.Flush();
}

void ServerConnection::LoseCalls(const Error& reason) {
  // Callbacks of a cancellation may end calls, so take the map first.
  const auto calls = std::exchange(calls_, {});
  for (const auto& [id, call] : calls) call->Detach();
  for (const auto& [id, call] : calls) call->ConnectionLost(reason);
}

void ServerConnection::CancelCalls(const Error& reason) {
  std::vector<ServerCall*> calls;
  for (const auto& [id, call] : calls_) calls.push_back(call);
  for (ServerCall* call : calls) call->Cancel(reason);
}

ServerCall::ServerCall(rt::Runtime& runtime, ServerConnection& connection, uint32_t stream,
                       const OpenFrame& open, int64_t credit, Duration stall_timeout)
    : runtime_(runtime),
      connection_(&connection),
      stream_(stream),
      method_(open.method),
      request_id_(open.request_id),
      payload_(open.payload.begin(), open.payload.end()),
      peer_(connection.peer()),
      token_(cancel_.Token()),
      credit_(credit),
      stall_timeout_(stall_timeout),
      wake_(runtime) {
  if (!open.remaining_ms) return;
  // Bounded, so that a hostile number cannot overflow the clock.
  constexpr int64_t kMaxMillis = int64_t{1000} * 3600 * 24 * 365;
  const auto remaining =
      std::chrono::milliseconds(std::clamp<int64_t>(*open.remaining_ms, 0, kMaxMillis));
  deadline_ = runtime.Now() + remaining;
  deadline_timer_ = runtime.RunAt(deadline_, [this] {
    Cancel({Code::kDeadlineExceeded, "the request's deadline has passed", {}});
  });
}

ServerCall::~ServerCall() {
  if (connection_ != nullptr) connection_->Forget(stream_);
}

const std::string& ServerCall::peer() const { return peer_; }

void ServerCall::AddCredit(uint32_t bytes) {
  // A hostile peer cannot overflow this: 2^31 frames of 2^32 bytes would be needed.
  credit_ += bytes;
  stall_timer_.reset();
  wake_.WakeAll();
}

void ServerCall::ConnectionLost(const Error& reason) {
  Cancel({Code::kConnectionLost, reason.message, {}});
}

void ServerCall::WatchForStall() {
  if (stall_timer_ != nullptr) return;
  stall_timer_ = runtime_.RunAt(runtime_.Now() + stall_timeout_, [this] {
    Cancel({Code::kCancelled,
            fmt::format("the caller has read nothing for {} s", ToMillis(stall_timeout_) / 1000),
            {}});
  });
}

rt::Task<Status> ServerCall::Send(Bytes item) {
  for (;;) {
    if (token_.Cancelled()) co_return std::unexpected(token_.Reason());
    CHECK(connection_ != nullptr);  // detached calls are cancelled
    if (credit_ <= 0) {
      WatchForStall();
    } else if (connection_->connection().HasRoom()) {
      break;
    }
    CO_TRY(co_await wake_.Wait(token_));
  }
  // One item may overdraw the credit, so that items longer than the window can pass at all.
  credit_ -= static_cast<int64_t>(item.size() + kItemCost);
  RpcConnection& connection = connection_->connection();
  AppendFrame(connection.out(), FrameType::kData, stream_, item);
  connection.Flush();
  co_return Status();
}

void ServerCall::Finish(const Status& status) {
  if (connection_ == nullptr) return;
  RpcConnection& connection = connection_->connection();
  AppendEnd(connection.out(), stream_, status);
  connection.Flush();
  connection_->Forget(stream_);
  connection_ = nullptr;
}

}  // namespace

rt::Task<void> RpcServer::Impl::AcceptLoop() {
  for (;;) {
    auto stream = co_await listener->Accept(accepting.Token());
    if (accepting.Token().Cancelled()) co_return;
    if (stream) {
      connection_tasks.Spawn(ServeConnection(*std::move(stream)));
      continue;
    }
    LOG_WARN_ONCE("request plane: {}; trying again", stream.error().message);
    co_await runtime.Sleep(kAcceptRetry, accepting.Token());
  }
}

rt::Task<void> RpcServer::Impl::ServeConnection(std::unique_ptr<rt::Stream> stream) {
  const uint64_t id = next_connection++;
  {
    ServerConnection side(*this, std::move(stream));
    connections.emplace(id, &side);
    const Error reason = co_await side.connection().Run();
    if (reason.code == Code::kCorrupt || reason.code == Code::kIncompatible)
      LOG_WARN("request plane: connection of {} ended: {}", side.peer(), reason.message);
    connections.erase(id);
    side.LoseCalls(reason);
  }
  changed.WakeAll();
}

rt::Task<void> RpcServer::Impl::RunCall(std::unique_ptr<ServerCall> call,
                                        const RpcHandler* handler) {
  const Status status = co_await (*handler)(*call);
  call->Finish(status);
  call.reset();
  --open_streams;
  changed.WakeAll();
}

rt::Task<void> RpcServer::Impl::WaitForCalls(Duration limit) {
  rt::CancelSource late;
  const auto timer = runtime.RunAt(runtime.Now() + limit, [&late] { late.Cancel(); });
  while (open_streams > 0 && !late.Token().Cancelled()) co_await changed.Wait(late.Token());
}

rt::Task<void> RpcServer::Impl::Stop(Duration drain) {
  stopping = true;
  accepting.Cancel();
  listener->Close();
  for (const auto& [id, side] : connections) {
    AppendFrame(side->connection().out(), FrameType::kGoAway, 0);
    side->connection().Flush();
  }
  co_await WaitForCalls(drain);
  for (const auto& [id, side] : connections)
    side->CancelCalls({Code::kCancelled, "the server is shutting down", {}});
  co_await WaitForCalls(kFarewell);
  const MonoTime give_up = runtime.Now() + kFarewell;
  const auto unsent = [this] {
    return std::any_of(connections.begin(), connections.end(), [](const auto& entry) {
      return entry.second->connection().queued_bytes() > 0;
    });
  };
  while (unsent() && runtime.Now() < give_up) co_await runtime.Sleep(std::chrono::milliseconds(1));
  for (const auto& [id, side] : connections)
    side->connection().Close({Code::kConnectionLost, "the server has stopped", {}});
  co_await connection_tasks.Join();
  co_await accepting.Join();
}

RpcServer::RpcServer(rt::Runtime& runtime, std::unique_ptr<rt::Listener> listener,
                     RpcOptions options)
    : impl_(std::make_unique<Impl>(runtime, std::move(listener), options)) {}
RpcServer::~RpcServer() = default;

void RpcServer::Handle(std::string method, RpcHandler handler) {
  impl_->handlers.insert_or_assign(std::move(method), std::move(handler));
}
void RpcServer::Start() { impl_->accepting.Spawn(impl_->AcceptLoop()); }
rt::Task<void> RpcServer::Stop(Duration drain) { return impl_->Stop(drain); }
rt::Address RpcServer::address() const { return impl_->listener->LocalAddress(); }
size_t RpcServer::open_connections() const { return impl_->connections.size(); }
size_t RpcServer::open_streams() const { return impl_->open_streams; }

}  // namespace tandem::net

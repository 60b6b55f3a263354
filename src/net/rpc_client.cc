#include "net/rpc_client.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "net/rpc_connection.h"
#include "rt/scope.h"

namespace tandem::net {
namespace {

// Room that a frame's own fields take beside the payload.
constexpr size_t kOpenOverhead = 4096;

class ClientStream final : public RpcStream {
 public:
  ClientStream(rt::Runtime& runtime, RpcChannel::Impl& channel, std::string_view method,
               Bytes payload, std::string request_id, MonoTime deadline);
  ~ClientStream() override;

  rt::Task<Result<std::optional<Bytes>>> Next() override;
  void Cancel() override { EndHere({Code::kCancelled, "cancelled by the caller", {}}); }

  // Arms deadline and cancellation. A token that has fired already ends the stream at once.
  void Begin(const rt::CancelToken& cancel);
  // Sends the request.
  void Open(RpcConnection& connection, uint32_t stream);
  Status OnData(std::span<const std::byte> body);
  // Items that have come stay readable.
  void End(Status status);
  bool ended() const { return ended_.has_value(); }

 private:
  // Ends it from this side: drops unread items and tells the server.
  void EndHere(Error reason);
  void DropItems() {
    items_.clear();
    next_item_ = 0;
  }
  // The places of read items are used again when all are read, or many.
  void ForgetRead() {
    constexpr size_t kMany = 64;
    if (next_item_ < items_.size() && next_item_ < kMany) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(next_item_));
    next_item_ = 0;
  }
  void LeaveChannel();
  void GiveCredit(size_t consumed);

  rt::Runtime& runtime_;
  RpcChannel::Impl* channel_;  // null once ended
  uint32_t stream_ = 0;        // 0 until the request was sent
  std::string method_;
  Bytes payload_;
  std::string request_id_;
  MonoTime deadline_;
  std::vector<Bytes> items_;
  size_t next_item_ = 0;  // those before it were read
  size_t buffered_ = 0;
  size_t consumed_ = 0;  // since the last credit frame
  std::optional<Status> ended_;
  rt::WaitList wake_;
  std::unique_ptr<rt::Timer> deadline_timer_;
  rt::CancelToken token_;
  rt::CancelHook cancel_;
};

}  // namespace

struct RpcChannel::Impl final : RpcConnection::Side {
  Impl(rt::Runtime& rt, rt::Address to, const RpcOptions& o)
      : runtime(rt), address(std::move(to)), options(o), tasks(rt) {}
  ~Impl() override {
    const Error closed{Code::kConnectionLost, "the channel was closed", {}};
    FailSent(closed);
    FailUnsent(closed);
  }

  void Dial();
  rt::Task<void> Connect();
  void Add(ClientStream& stream);
  void Remove(ClientStream& stream, uint32_t id);
  void FailSent(const Error& reason);
  void FailUnsent(const Error& reason);
  void OnHello(const HelloFrame&) override {}
  void OnRoom() override {}
  Status OnFrame(const Frame& frame) override;

  rt::Runtime& runtime;
  const rt::Address address;
  const RpcOptions options;
  RpcConnection* connection = nullptr;
  bool connecting = false;
  bool going_away = false;
  uint32_t next_stream = 1;
  std::deque<ClientStream*> unsent;           // wait for the connection
  std::map<uint32_t, ClientStream*> streams;  // of this connection
  rt::TaskScope tasks;                        // last: its tasks use all of this
};

rt::Task<void> RpcChannel::Impl::Connect() {
  auto stream = co_await runtime.network().Connect(address, options.connect_timeout);
  connecting = false;
  if (!stream) {
    FailUnsent({Code::kUnavailable, stream.error().message, {}});
    co_return;
  }
  RpcConnection live(runtime, *std::move(stream), options, *this);
  connection = &live;
  going_away = false;
  next_stream = 1;
  for (ClientStream* waiting : std::exchange(unsent, {})) {
    streams.emplace(next_stream, waiting);
    waiting->Open(live, next_stream++);
  }
  Error reason = co_await live.Run();
  connection = nullptr;
  // A peer of another version, or of none, stays what it is; anything else may be tried again.
  if (reason.code != Code::kIncompatible && reason.code != Code::kCorrupt)
    reason.code = Code::kConnectionLost;
  FailSent({reason.code, fmt::format("{}: {}", address.ToString(), reason.message), {}});
  // Streams that came between the end of the connection and now.
  if (!unsent.empty()) Dial();
}

void RpcChannel::Impl::Dial() {
  if (!std::exchange(connecting, true)) tasks.Spawn(Connect());
}

void RpcChannel::Impl::Add(ClientStream& stream) {
  if (connection != nullptr && connection->closed()) {
    // Its task has not run yet; what starts now belongs to the next connection.
    unsent.push_back(&stream);
    return;
  }
  if (going_away) {
    stream.End(Err(Code::kUnavailable, "{} is shutting down", address.ToString()));
  } else if (streams.size() + unsent.size() >= options.max_streams) {
    stream.End(Err(Code::kOverloaded, "{} requests to {} are open; try later", streams.size(),
                   address.ToString()));
  } else if (connection != nullptr) {
    if (connection->queued_bytes() > options.max_queued_bytes) {
      stream.End(Err(Code::kOverloaded, "{} bytes wait for {}; try later",
                     connection->queued_bytes(), address.ToString()));
      return;
    }
    streams.emplace(next_stream, &stream);
    stream.Open(*connection, next_stream++);
  } else {
    unsent.push_back(&stream);
    Dial();
  }
}

void RpcChannel::Impl::Remove(ClientStream& stream, uint32_t id) {
  if (id == 0) {
    std::erase(unsent, &stream);
    return;
  }
  streams.erase(id);
}

void RpcChannel::Impl::FailSent(const Error& reason) {
  for (const auto& [id, stream] : std::exchange(streams, {})) stream->End(std::unexpected(reason));
}

void RpcChannel::Impl::FailUnsent(const Error& reason) {
  for (ClientStream* stream : std::exchange(unsent, {})) stream->End(std::unexpected(reason));
}

Status RpcChannel::Impl::OnFrame(const Frame& frame) {
  if (frame.type == FrameType::kGoAway) {
    going_away = true;
    return Status();
  }
  // Frames of streams that ended here cross with our cancel: ignored.
  const auto found = streams.find(frame.stream);
  if (found == streams.end()) return Status();
  if (frame.type == FrameType::kData) return found->second->OnData(frame.body);
  if (frame.type == FrameType::kEnd) {
    TRY_ASSIGN(EndFrame end, ParseEnd(frame.body));
    found->second->End(std::move(end.status));
  }
  return Status();
}

namespace {

ClientStream::ClientStream(rt::Runtime& runtime, RpcChannel::Impl& channel, std::string_view method,
                           Bytes payload, std::string request_id, MonoTime deadline)
    : runtime_(runtime),
      channel_(&channel),
      method_(method),
      payload_(std::move(payload)),
      request_id_(std::move(request_id)),
      deadline_(deadline),
      wake_(runtime) {}

ClientStream::~ClientStream() {
  if (!ended_) Cancel();
}

void ClientStream::Begin(const rt::CancelToken& cancel) {
  if (deadline_ != kNever) {
    deadline_timer_ = runtime_.RunAt(deadline_, [this] {
      EndHere({Code::kDeadlineExceeded, "the request's deadline has passed", {}});
    });
  }
  token_ = cancel;
  cancel_.Set(cancel, [this] { EndHere(token_.Reason()); });
}

void ClientStream::Open(RpcConnection& connection, uint32_t stream) {
  stream_ = stream;
  OpenFrame open;
  open.method = method_;
  open.request_id = request_id_;
  open.payload = payload_;
  if (deadline_ != kNever) {
    const int64_t remaining = ToMillis(deadline_ - runtime_.Now());
    open.remaining_ms = remaining > 0 ? remaining : 0;
  }
  AppendOpen(connection.out(), stream, open);
  connection.Flush();
  payload_ = {};
}

Status ClientStream::OnData(std::span<const std::byte> body) {
  // The server may overdraw the window by one item.
  if (buffered_ > channel_->options.stream_window)
    return Err(Code::kCorrupt, "the server sent more than the credit of a stream");
  buffered_ += body.size() + kItemCost;
  items_.emplace_back(body.begin(), body.end());
  wake_.WakeOne();
  return Status();
}

void ClientStream::LeaveChannel() {
  channel_ = nullptr;
  deadline_timer_.reset();
  cancel_.Reset();
  wake_.WakeAll();
}

void ClientStream::End(Status status) {
  if (ended_) return;
  ended_ = std::move(status);
  channel_->Remove(*this, stream_);
  LeaveChannel();
}

void ClientStream::EndHere(Error reason) {
  DropItems();
  if (ended_) return;
  ended_ = std::unexpected(std::move(reason));
  RpcConnection* const connection = channel_->connection;
  if (stream_ != 0 && connection != nullptr && !connection->closed()) {
    AppendFrame(connection->out(), FrameType::kCancel, stream_);
    connection->Flush();
  }
  channel_->Remove(*this, stream_);
  LeaveChannel();
}

void ClientStream::GiveCredit(size_t consumed) {
  buffered_ -= consumed;
  consumed_ += consumed;
  if (channel_ == nullptr || channel_->connection == nullptr ||
      consumed_ < channel_->options.stream_window / 2)
    return;
  AppendCredit(channel_->connection->out(), stream_, static_cast<uint32_t>(consumed_));
  channel_->connection->Flush();
  consumed_ = 0;
}

rt::Task<Result<std::optional<Bytes>>> ClientStream::Next() {
  for (;;) {
    if (next_item_ < items_.size()) {
      std::optional<Bytes> item(std::move(items_[next_item_++]));
      ForgetRead();
      GiveCredit(item->size() + kItemCost);
      co_return item;
    }
    if (ended_) {
      if (!*ended_) co_return std::unexpected(ended_->error());
      co_return std::nullopt;
    }
    CO_TRY(co_await wake_.Wait());
  }
}

}  // namespace

RpcChannel::RpcChannel(rt::Runtime& runtime, rt::Address address, RpcOptions options)
    : impl_(std::make_unique<Impl>(runtime, std::move(address), options)) {}
RpcChannel::~RpcChannel() = default;

std::unique_ptr<RpcStream> RpcChannel::Start(std::string_view method, Bytes payload,
                                             RpcCallOptions options) {
  const size_t size = payload.size() + method.size() + options.request_id.size();
  auto stream = std::make_unique<ClientStream>(impl_->runtime, *impl_, method, std::move(payload),
                                               std::move(options.request_id), options.deadline);
  if (size + kOpenOverhead > impl_->options.max_frame_bytes) {
    stream->End(Err(Code::kTooLarge, "a request of {} bytes is longer than the limit of {}", size,
                    impl_->options.max_frame_bytes - kOpenOverhead));
    return stream;
  }
  stream->Begin(options.cancel);
  if (!stream->ended()) impl_->Add(*stream);
  return stream;
}

rt::Task<Result<Bytes>> RpcChannel::Call(std::string method, Bytes payload,
                                         RpcCallOptions options) {
  const auto stream = Start(method, std::move(payload), std::move(options));
  CO_TRY_ASSIGN(auto item, co_await stream->Next());
  if (!item) co_return Err(Code::kInternal, "method '{}' answered without a value", method);
  CO_TRY_ASSIGN(const auto end, co_await stream->Next());
  if (end) co_return Err(Code::kInternal, "method '{}' answered with several values", method);
  co_return *std::move(item);
}

const rt::Address& RpcChannel::address() const { return impl_->address; }
bool RpcChannel::Connected() const {
  return impl_->connection != nullptr && !impl_->connection->closed();
}
bool RpcChannel::GoingAway() const { return impl_->going_away; }
size_t RpcChannel::open_streams() const { return impl_->streams.size() + impl_->unsent.size(); }

}  // namespace tandem::net

#include "xfer/kv_server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "xfer/deadline.h"
#include "xfer/fd_passing.h"
#include "xfer/frame_stream.h"
#include "xfer/side_channel.h"

namespace tandem::xfer {
namespace {

constexpr std::string_view kBuild = "tandem";
// After a failed accept (no descriptors left, say) others may get some back.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// Neighbouring blocks of a list that also lie next to each other are one range of bytes.
struct Run {
  kv::BlockId first = 0;
  size_t blocks = 0;
};

std::vector<Run> RunsOf(std::span<const kv::BlockRef> blocks) {
  std::vector<Run> runs;
  for (const kv::BlockRef& ref : blocks) {
    const bool follows =
        !runs.empty() &&
        runs.back().first + static_cast<kv::BlockId>(runs.back().blocks) == ref.block;
    if (follows) {
      ++runs.back().blocks;
    } else {
      runs.push_back({ref.block, 1});
    }
  }
  return runs;
}

}  // namespace

// Ends the connection's pins however its task ends, destroyed in the middle of a wait included.
struct KvServer::Connection {
  Connection(KvServer& s, kv::ConnectionId connection, std::unique_ptr<rt::Stream> stream)
      : server(s), id(connection), frames(s.runtime_, std::move(stream), s.options_.io_timeout) {}
  ~Connection() { server.leases_.ConnectionLost(id); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  KvServer& server;
  kv::ConnectionId id;
  internal::FrameStream frames;
};

class KvServer::Slot {
 public:
  explicit Slot(size_t& count) : count_(count) { ++count_; }
  ~Slot() { --count_; }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  size_t& count_;
};

KvServer::KvServer(rt::Runtime& runtime, const Arena& arena, kv::LeaseTable& leases,
                   Options options, Metrics& metrics)
    : runtime_(runtime),
      arena_(arena),
      leases_(leases),
      options_(std::move(options)),
      bytes_sent_(metrics.GetCounter("tandem_kv_sent_bytes_total",
                                     "KV bytes streamed to decode workers over tcp")),
      refused_(metrics.GetCounter("tandem_kv_side_channel_refused_total",
                                  "side channel connections closed because of the limit")),
      arenas_passed_(metrics.GetCounter("tandem_kv_arenas_passed_total",
                                        "times that the KV arena was handed to a reader")),
      scope_(runtime) {
  CHECK(options_.identity.block_bytes == arena.block_bytes());
}

KvServer::~KvServer() = default;

Status KvServer::Start() {
  CHECK(!started_);
  auto listener = runtime_.network().Listen(options_.listen);
  if (!listener.has_value()) {
    return Err(listener.error().code,
               "the KV side channel cannot listen on {}: {}; choose another "
               "VLLM_NIXL_SIDE_CHANNEL_HOST or VLLM_NIXL_SIDE_CHANNEL_PORT",
               options_.listen.ToString(), listener.error().message);
  }
  started_ = true;
  listener_ = std::move(*listener);
  ListenForFds();
  scope_.Spawn(AcceptLoop());
  return {};
}

rt::Task<void> KvServer::Stop() {
  if (listener_ != nullptr) listener_->Close();
  if (fd_listener_ != nullptr) fd_listener_->Close();
  scope_.Cancel();
  co_await scope_.Join();
}

rt::Address KvServer::address() const {
  CHECK(listener_ != nullptr);
  return listener_->LocalAddress();
}

rt::Task<void> KvServer::AcceptLoop() {
  const rt::CancelToken stopping = scope_.Token();
  while (!stopping.Cancelled()) {
    auto stream = co_await listener_->Accept(stopping);
    if (!stream.has_value()) {
      if (stopping.Cancelled()) break;
      LOG_WARN_ONCE("the KV side channel could not accept a connection: {}",
                    stream.error().message);
      if (!(co_await runtime_.Sleep(kAcceptPause, stopping)).has_value()) break;
      continue;
    }
    if (connections_ >= options_.max_connections) {
      refused_.Add();
      LOG_WARN_ONCE("{} connections on the KV side channel, the limit: further ones are refused",
                    connections_);
      continue;
    }
    scope_.Spawn(Serve(*std::move(stream)));
  }
}

rt::Task<void> KvServer::Serve(std::unique_ptr<rt::Stream> stream) {
  const Slot slot(connections_);
  Connection connection(*this, next_connection_++, std::move(stream));
  Status status = co_await Handshake(connection);
  while (status.has_value()) status = co_await AnswerNext(connection);
  // A reader that leaves, or an idle one, is no news; one that talks nonsense is.
  const Error error = std::move(status).error();
  if (error.code == Code::kConnectionLost || error.code == Code::kCancelled) co_return;
  LOG_WARN("KV side channel: {} dropped: {}", connection.frames.stream().PeerName(), error.message);
  co_await connection.frames.Write(Encode(error), scope_.Token());
}

rt::Task<Status> KvServer::Handshake(Connection& connection) {
  CO_TRY_ASSIGN(const internal::Message message,
                co_await connection.frames.ReadMessage(scope_.Token(), options_.io_timeout));
  if (message.type != MessageType::kHello) {
    co_return Err(Code::kCorrupt, "message type {} where a hello is expected",
                  static_cast<int>(message.type));
  }
  CO_TRY_ASSIGN(const Hello hello, Decode<Hello>(message.body));
  if (hello.major != kProtocolMajor) {
    co_return Err(Code::kIncompatible,
                  "side channel version {} on the decode worker, {} on the "
                  "prefill worker; run the same version on both",
                  hello.major, kProtocolMajor);
  }
  CO_TRY(CheckCompatible(hello.identity, options_.identity));
  Welcome welcome;
  welcome.build = kBuild;
  welcome.identity = options_.identity;
  welcome.engine_id = options_.engine_id;
  welcome.incarnation = leases_.incarnation();
  welcome.blocks = static_cast<uint32_t>(arena_.blocks());
  welcome.lease_ms = static_cast<uint64_t>(ToMillis(leases_.lease_duration()));
  welcome.shm_address = shm_address_;
  welcome.shm_token = shm_token_;
  co_return co_await connection.frames.Write(Encode(welcome), scope_.Token());
}

rt::Task<Status> KvServer::AnswerNext(Connection& connection) {
  CO_TRY_ASSIGN(const internal::Message message,
                co_await connection.frames.ReadMessage(scope_.Token(), options_.idle_timeout));
  switch (message.type) {
    case MessageType::kOpen:
      co_return co_await AnswerOpen(connection, message.body);
    case MessageType::kClose:
      co_return co_await AnswerClose(connection, message.body);
    case MessageType::kHeartbeat:
      co_return co_await AnswerHeartbeat(connection, message.body);
    case MessageType::kRelease:
      co_return co_await AnswerRelease(connection, message.body);
    default:
      co_return Err(Code::kCorrupt, "message type {} is not a request",
                    static_cast<int>(message.type));
  }
}

rt::Task<Status> KvServer::AnswerOpen(Connection& connection, std::span<const std::byte> body) {
  CO_TRY_ASSIGN(OpenRequest request, Decode<OpenRequest>(body));
  // Refusals are answers, not failures of the connection: it stays good for other leases.
  const auto pin = leases_.Open(request.lease, request.incarnation, request.blocks, connection.id);
  if (!pin.has_value()) {
    co_return co_await connection.frames.Write(Encode(pin.error()), scope_.Token());
  }
  const Opened opened{*pin};
  CO_TRY(co_await connection.frames.Write(Encode(opened), scope_.Token()));
  if (!request.stream) co_return Status();
  co_return co_await SendBlocks(connection, *pin, std::move(request.blocks));
}

rt::Task<Status> KvServer::SendBlocks(Connection& connection, kv::PinId pin,
                                      std::vector<kv::BlockRef> blocks) {
  for (const Run& run : RunsOf(blocks)) {
    std::span<const std::byte> bytes(arena_.Block(run.first), run.blocks * arena_.block_bytes());
    while (!bytes.empty()) {
      const auto chunk = bytes.first(std::min(bytes.size(), kMaxDataBytes));
      // While the chunk is on its way its blocks cannot be handed back, even if the lease ends.
      const kv::LeaseRead read(leases_, pin);
      if (!read) {
        const Error stale{Code::kStale, "the lease ended while its blocks were sent", {}};
        co_return co_await connection.frames.Write(Encode(stale), scope_.Token());
      }
      CO_TRY(co_await connection.frames.Write(EncodeDataHeader(chunk.size()), scope_.Token()));
      CO_TRY(co_await connection.frames.WriteBytes(chunk, scope_.Token()));
      bytes_sent_.Add(chunk.size());
      bytes = bytes.subspan(chunk.size());
    }
  }
  co_return Status();
}

rt::Task<Status> KvServer::AnswerClose(Connection& connection, std::span<const std::byte> body) {
  CO_TRY_ASSIGN(const CloseRequest request, Decode<CloseRequest>(body));
  const Closed closed{leases_.Close(request.pin, request.release, runtime_.Now())};
  co_return co_await connection.frames.Write(Encode(closed), scope_.Token());
}

rt::Task<Status> KvServer::AnswerHeartbeat(Connection& connection,
                                           std::span<const std::byte> body) {
  CO_TRY_ASSIGN(const Heartbeat beat, Decode<Heartbeat>(body));
  const HeartbeatAck ack{static_cast<uint32_t>(leases_.Heartbeat(beat.leases, runtime_.Now()))};
  co_return co_await connection.frames.Write(Encode(ack), scope_.Token());
}

rt::Task<Status> KvServer::AnswerRelease(Connection& connection, std::span<const std::byte> body) {
  CO_TRY_ASSIGN(const ReleaseRequest request, Decode<ReleaseRequest>(body));
  const Released released{leases_.Release(request.lease)};
  co_return co_await connection.frames.Write(Encode(released), scope_.Token());
}

// Readers in another network namespace, or of another user, do not get through here: they use tcp.
void KvServer::ListenForFds() {
  if (!options_.offer_shm || arena_.fd() < 0) return;
  rt::Address address;
  address.host =
      fmt::format("unix:@tandem-kv-{:016x}-{:016x}", leases_.incarnation(), runtime_.Random());
  auto listener = runtime_.network().Listen(address);
  if (!listener.has_value()) {
    LOG_WARN("shared memory is not offered to decode workers, they use tcp: {}",
             listener.error().message);
    return;
  }
  fd_listener_ = std::move(*listener);
  shm_address_ = address.host;
  shm_token_ = runtime_.Random();
  scope_.Spawn(FdLoop());
}

rt::Task<void> KvServer::FdLoop() {
  const rt::CancelToken stopping = scope_.Token();
  while (!stopping.Cancelled()) {
    auto stream = co_await fd_listener_->Accept(stopping);
    if (!stream.has_value()) {
      if (!(co_await runtime_.Sleep(kAcceptPause, stopping)).has_value()) break;
      continue;
    }
    if (fd_connections_ < options_.max_connections) scope_.Spawn(PassFd(*std::move(stream)));
  }
}

rt::Task<void> KvServer::PassFd(std::unique_ptr<rt::Stream> stream) {
  const Slot slot(fd_connections_);
  if (const Status same = CheckSameUser(stream->NativeHandle()); !same.has_value()) {
    LOG_WARN("the KV arena is not handed over: {}", same.error().message);
    co_return;
  }
  internal::FrameStream frames(runtime_, std::move(stream), options_.io_timeout);
  uint64_t token = 0;
  const auto bytes = std::as_writable_bytes(std::span(&token, 1));
  if (!(co_await frames.ReadInto(bytes, scope_.Token())).has_value() || token != shm_token_) {
    co_return;
  }
  const Status sent = SendFd(frames.stream().NativeHandle(), arena_.fd(), leases_.incarnation());
  if (sent.has_value()) {
    arenas_passed_.Add();
  } else {
    LOG_WARN("{}", sent.error().message);
  }
}

}  // namespace tandem::xfer

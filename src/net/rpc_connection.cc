#include "net/rpc_connection.h"

#include <utility>

namespace tandem::net {
namespace {

constexpr size_t kRoomMark = 1u << 20;        // queued bytes at which streams hold back
constexpr size_t kKeptCapacity = 256u << 10;  // of a write buffer between bursts

}  // namespace

RpcConnection::RpcConnection(rt::Runtime& runtime, std::unique_ptr<rt::Stream> stream,
                             const RpcOptions& options, Side& side)
    : runtime_(runtime),
      stream_(std::move(stream)),
      options_(options),
      side_(side),
      reader_(options.max_frame_bytes),
      work_(runtime),
      written_(runtime),
      tasks_(runtime) {
  AppendHello(out_, options_.stream_window);
}

rt::Task<Error> RpcConnection::Run() {
  tasks_.Spawn(WriteLoop());
  tasks_.Spawn(KeepAlive());
  Flush();
  while (!closed_) {
    const auto count = co_await stream_->Read(reader_.Space());
    if (closed_) break;
    if (!count || *count == 0) {
      Close(count ? Error{Code::kConnectionLost, "the peer closed the connection", {}}
                  : count.error());
      break;
    }
    heard_ = true;
    reader_.Commit(*count);
    while (!closed_) {
      auto frame = reader_.Next();
      if (frame && !frame->has_value()) break;
      const Status status = frame ? Dispatch(**frame) : std::unexpected(frame.error());
      if (!status) Close(status.error());
    }
  }
  co_return reason_;
}

Status RpcConnection::Dispatch(const Frame& frame) {
  if (!hello_seen_) {
    if (frame.type != FrameType::kHello)
      return Err(Code::kCorrupt, "the peer does not speak the request plane");
    TRY_ASSIGN(const HelloFrame hello, ParseHello(frame.body));
    if (hello.major != kRpcMajor) {
      return Err(Code::kIncompatible,
                 "the peer (build {}) speaks version {}.{} of the request plane, this one {}.{}; "
                 "run the same release on both",
                 hello.build, hello.major, hello.minor, kRpcMajor, kRpcMinor);
    }
    hello_seen_ = true;
    side_.OnHello(hello);
    return Status();
  }
  switch (frame.type) {
    case FrameType::kPing:
      // An echo of at most a few bytes, so that pings cannot be used to make us queue much.
      AppendFrame(out_, FrameType::kPong, 0, frame.body.first(std::min(frame.body.size(), 8ul)));
      Flush();
      return queued_bytes() > options_.max_queued_bytes
                 ? Err(Code::kResourceExhausted, "the peer sends but does not read")
                 : Status();
    case FrameType::kPong:
    case FrameType::kHello:
      return Status();
    default:
      return side_.OnFrame(frame);
  }
}

void RpcConnection::Close(Error reason) {
  if (closed_) return;
  closed_ = true;
  reason_ = std::move(reason);
  stream_->Close();
  work_.Notify();
  written_.WakeAll();
}

void RpcConnection::Flush() { work_.Notify(); }

bool RpcConnection::HasRoom() {
  if (queued_bytes() < kRoomMark) return true;
  wants_room_ = true;
  return false;
}

rt::Task<void> RpcConnection::WriteLoop() {
  while (!closed_) {
    if (out_.empty()) {
      written_.WakeAll();
      co_await work_.Wait();
      continue;
    }
    writing_.swap(out_);
    const auto sent = stream_->TryWrite(writing_);
    Status status = sent ? Status() : std::unexpected(sent.error());
    if (sent && *sent < writing_.size())
      status = co_await stream_->Write(std::span<const std::byte>(writing_).subspan(*sent));
    if (writing_.capacity() > kKeptCapacity) {
      writing_ = {};
    } else {
      writing_.clear();
    }
    if (!status) Close(status.error());
    if (wants_room_ && !closed_ && queued_bytes() < kRoomMark) {
      wants_room_ = false;
      side_.OnRoom();
    }
  }
}

rt::Task<void> RpcConnection::Drain() {
  while (!closed_ && queued_bytes() > 0) co_await written_.Wait();
}

rt::Task<void> RpcConnection::KeepAlive() {
  // Silence is counted in turns of this loop, not by the clock: after this process itself stood
  // still, what the peer sent meanwhile must be read before it is judged.
  Duration silence{0};
  while (!closed_) {
    co_await runtime_.Sleep(options_.ping_interval);
    if (std::exchange(heard_, false)) {
      silence = Duration(0);
      continue;
    }
    silence += options_.ping_interval;
    if (silence >= options_.dead_after) {
      Close({Code::kConnectionLost,
             fmt::format("nothing was heard from the peer for {} ms", ToMillis(silence)),
             {}});
      break;
    }
    AppendFrame(out_, FrameType::kPing, 0);
    Flush();
  }
}

}  // namespace tandem::net

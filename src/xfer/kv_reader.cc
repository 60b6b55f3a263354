#include "xfer/kv_reader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "xfer/block_copy.h"
#include "xfer/deadline.h"
#include "xfer/peer_pool.h"
#include "xfer/side_channel.h"

namespace tandem::xfer {
namespace {

using internal::CopyRange;
using internal::Message;
using internal::PeerConnection;
using internal::PeerHandle;
using internal::PeerPool;

// A helper thread copies this much at a time (about 2 ms), then cancellation and a dead owner are
// looked for.
constexpr size_t kCopySliceBytes = size_t{16} << 20;
// Below this a copy takes less time than waking a helper thread.
constexpr size_t kCopyInlineBytes = size_t{128} << 10;
constexpr Duration kReleaseTimeout = std::chrono::seconds(5);

class Counted {
 public:
  explicit Counted(size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  size_t& count_;
};

// One request and its answer, whose type is `expected` or an error.
rt::Task<Result<Message>> Exchange(PeerConnection* connection, Frame request, MessageType expected,
                                   Duration timeout, rt::CancelToken cancel) {
  CO_TRY(co_await connection->frames.Write(std::move(request), cancel));
  CO_TRY_ASSIGN(Message answer, co_await connection->frames.ReadMessage(cancel, timeout));
  if (answer.type == MessageType::kError) {
    CO_TRY_ASSIGN(Error error, Decode<Error>(answer.body));
    co_return std::unexpected(std::move(error));
  }
  if (answer.type != expected) {
    co_return Err(Code::kCorrupt, "message type {} from the KV side channel where {} is expected",
                  static_cast<int>(answer.type), static_cast<int>(expected));
  }
  co_return answer;
}

// Copies out of the mapped arena, in slices on a helper thread.
rt::Task<Status> CopyFromShm(rt::Runtime& runtime, PeerConnection* connection, size_t block_bytes,
                             const std::vector<PullBlock>* blocks, rt::CancelToken cancel) {
  const auto ranges =
      internal::PlanCopies(connection->mapping->data(), block_bytes, *blocks, kCopySliceBytes);
  for (size_t at = 0; at < ranges.size();) {
    if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
    if (connection->gone) {
      co_return Err(Code::kConnectionLost, "the prefill worker died during the transfer");
    }
    std::vector<CopyRange> slice;
    size_t bytes = 0;
    for (; at < ranges.size() && (bytes == 0 || bytes + ranges[at].bytes <= kCopySliceBytes);
         ++at) {
      bytes += ranges[at].bytes;
      slice.push_back(ranges[at]);
    }
    if (bytes <= kCopyInlineBytes) {
      internal::Copy(slice);
    } else {
      co_await runtime.RunBlocking([&slice] { internal::Copy(slice); });
    }
  }
  co_return Status();
}

// Receives the data frames that follow a streaming Open, straight into the destinations.
rt::Task<Status> ReadStream(PeerConnection* connection, size_t block_bytes, Duration timeout,
                            const std::vector<PullBlock>* blocks, rt::CancelToken cancel) {
  size_t block = 0;
  size_t offset = 0;
  while (block < blocks->size()) {
    CO_TRY_ASSIGN(const FrameHeader header,
                  co_await connection->frames.ReadHeader(cancel, timeout));
    if (header.type == MessageType::kError) {
      CO_TRY_ASSIGN(const auto body,
                    co_await connection->frames.ReadBody(header.body_bytes, cancel));
      CO_TRY_ASSIGN(Error error, Decode<Error>(body));
      co_return std::unexpected(std::move(error));
    }
    const size_t missing = (blocks->size() - block) * block_bytes - offset;
    if (header.type != MessageType::kData || header.body_bytes > missing) {
      co_return Err(Code::kCorrupt,
                    "a frame of type {} and {} bytes where {} bytes of blocks are "
                    "missing",
                    static_cast<int>(header.type), header.body_bytes, missing);
    }
    for (size_t left = header.body_bytes; left > 0;) {
      const size_t piece = std::min(left, block_bytes - offset);
      std::byte* to = (*blocks)[block].destination + offset;
      CO_TRY(co_await connection->frames.ReadInto(std::span(to, piece), cancel));
      left -= piece;
      offset += piece;
      if (offset == block_bytes) {
        offset = 0;
        ++block;
      }
    }
  }
  co_return Status();
}

}  // namespace

LeaseSource LeaseSource::Of(const TransferParams& params) {
  LeaseSource source;
  source.engine_id = params.engine_id;
  source.host = params.host;
  source.port = params.port;
  source.incarnation = params.incarnation;
  source.lease = params.lease;
  source.request_id = params.request_id;
  return source;
}

KvReader::KvReader(rt::Runtime& runtime, Options options, Metrics& metrics)
    : runtime_(runtime),
      options_(std::move(options)),
      metrics_(metrics),
      peers_(std::make_unique<PeerPool>(runtime, options_, metrics)),
      scope_(runtime) {
  CHECK(options_.identity.block_bytes > 0 && options_.max_connections_per_peer > 0);
}

KvReader::~KvReader() { CHECK(pulls_ == 0); }

rt::Task<void> KvReader::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
  co_await peers_->Stop();
}

size_t KvReader::connections() const { return peers_->connections(); }
size_t KvReader::mappings() const { return peers_->mappings(); }

rt::Task<Result<PullStats>> KvReader::Pull(LeaseSource source, std::vector<PullBlock> blocks,
                                           bool release, rt::CancelToken cancel,
                                           MonoTime deadline) {
  const Counted counted(pulls_);
  const DeadlineScope limit(runtime_, cancel, deadline,
                            {Code::kDeadlineExceeded, "the KV transfer took too long", {}});
  const MonoTime start = runtime_.Now();
  bool fresh = false;
  Result<PullStats> result = co_await PullOnce(source, &blocks, release, limit.Token(), &fresh);
  // A connection from the pool that had died unnoticed says nothing about the owner: ask again.
  if (!result.has_value() && fresh) {
    result = co_await PullOnce(source, &blocks, release, limit.Token(), &fresh);
  }
  if (result.has_value()) result->seconds = ToSeconds(runtime_.Now() - start);
  Count(result);
  co_return result;
}

rt::Task<Result<PullStats>> KvReader::PullOnce(LeaseSource source, std::vector<PullBlock>* blocks,
                                               bool release, rt::CancelToken cancel, bool* fresh) {
  const size_t block_bytes = options_.identity.block_bytes;
  if (blocks->size() > kMaxBlocksPerOpen) {
    co_return Err(Code::kInvalidArgument, "a transfer of {} blocks, at most {} are possible",
                  blocks->size(), kMaxBlocksPerOpen);
  }
  CO_TRY_ASSIGN(PeerHandle peer, co_await peers_->Acquire(source, *fresh, cancel));
  *fresh = false;
  for (const PullBlock& block : *blocks) {
    if (block.remote.block >= 0 &&
        static_cast<uint32_t>(block.remote.block) < peer->welcome.blocks) {
      continue;
    }
    peer.Keep();
    co_return Err(Code::kInvalidArgument, "remote block {} of {} does not exist",
                  block.remote.block, peer->welcome.blocks);
  }
  PullStats stats;
  CO_TRY_ASSIGN(stats.transport, co_await ChooseTransport(peer));
  OpenRequest open{source.lease, source.incarnation, stats.transport == "tcp", {}};
  open.blocks.reserve(blocks->size());
  for (const PullBlock& block : *blocks) open.blocks.push_back(block.remote);
  const auto answer =
      co_await Exchange(&*peer, Encode(open), MessageType::kOpened, options_.io_timeout, cancel);
  if (!answer.has_value()) {
    const Code code = answer.error().code;
    *fresh = code == Code::kConnectionLost && peer->reused && !cancel.Cancelled();
    if (code == Code::kStale || code == Code::kOverloaded) peer.Keep();
    co_return std::unexpected(answer.error());
  }
  CO_TRY_ASSIGN(const Opened opened, Decode<Opened>(answer->body));

  const MonoTime copy_start = runtime_.Now();
  if (stats.transport == "tcp") {
    CO_TRY(co_await ReadStream(&*peer, block_bytes, options_.io_timeout, blocks, cancel));
  } else {
    CO_TRY(co_await CopyFromShm(runtime_, &*peer, block_bytes, blocks, cancel));
  }
  stats.copy_seconds = ToSeconds(runtime_.Now() - copy_start);
  stats.bytes = static_cast<int64_t>(blocks->size() * block_bytes);
  stats.same_numerics = peer->welcome.identity.numerics_id == options_.identity.numerics_id;

  // Only now, with the bytes here, the owner is asked whether they were the right ones.
  CO_TRY_ASSIGN(const bool valid, co_await ClosePin(source, peer, opened.pin, release, cancel));
  if (!valid) {
    co_return Err(Code::kStale, "the lease of request '{}' ended during the transfer",
                  source.request_id);
  }
  co_return stats;
}

rt::Task<Result<std::string>> KvReader::ChooseTransport(PeerHandle& peer) {
  std::string reason = "no transport is allowed";
  for (const std::string& transport : options_.transports) {
    if (transport == "tcp") co_return transport;
    if (transport != "shm") continue;
    const Status mapped = co_await peers_->MapArena(peer);
    if (mapped.has_value()) co_return transport;
    reason = mapped.error().message;
  }
  peer.Keep();
  co_return Err(Code::kUnavailable, "no transport for KV from this prefill worker: {}", reason);
}

rt::Task<Result<bool>> KvReader::ClosePin(LeaseSource source, PeerHandle& peer, kv::PinId pin,
                                          bool release, rt::CancelToken cancel) {
  const CloseRequest request{pin, release};
  auto answer =
      co_await Exchange(&*peer, Encode(request), MessageType::kClosed, options_.io_timeout, cancel);
  if (answer.has_value()) {
    peer.Keep();
  } else if (answer.error().code == Code::kConnectionLost && !cancel.Cancelled()) {
    // The answer may have been lost after it was given. Owners remember it: ask once more.
    peer.Drop();
    CO_TRY_ASSIGN(PeerHandle again, co_await peers_->Acquire(source, true, cancel));
    answer = co_await Exchange(&*again, Encode(request), MessageType::kClosed, options_.io_timeout,
                               cancel);
    if (answer.has_value()) again.Keep();
  }
  if (!answer.has_value()) co_return std::unexpected(answer.error());
  CO_TRY_ASSIGN(const Closed closed, Decode<Closed>(answer->body));
  co_return closed.answer == kv::CloseAnswer::kValid;
}

void KvReader::Count(const Result<PullStats>& result) {
  if (!result.has_value()) {
    const Labels labels{{"reason", std::string(CodeName(result.error().code))}};
    metrics_.GetCounter("tandem_kv_transfer_failures_total", "KV transfers that failed", labels)
        .Add();
    return;
  }
  const Labels labels{{"transport", result->transport}};
  metrics_.GetCounter("tandem_kv_transfer_bytes_total", "KV bytes pulled", labels)
      .Add(static_cast<uint64_t>(result->bytes));
  metrics_
      .GetHistogram("tandem_kv_transfer_seconds", "time of a KV transfer", TransferSecondsBounds(),
                    labels)
      .Observe(result->seconds);
}

void KvReader::Release(LeaseSource source) {
  if (releases() >= options_.max_releases) {
    metrics_
        .GetCounter("tandem_kv_releases_dropped_total",
                    "leases left to expire because too many releases were under way")
        .Add();
    LOG_WARN_ONCE("{} KV leases are being released, the limit: further ones are left to expire",
                  releases());
    return;
  }
  scope_.Spawn(ReleaseTask(std::move(source)));
}

rt::Task<void> KvReader::ReleaseTask(LeaseSource source) {
  const DeadlineScope limit(runtime_, scope_.Token(), runtime_.Now() + kReleaseTimeout);
  for (const bool fresh : {false, true}) {
    auto peer = co_await peers_->Acquire(source, fresh, limit.Token());
    if (!peer.has_value()) co_return;  // gone or restarted: the lease has ended or will expire
    const ReleaseRequest request{source.lease};
    const auto answer = co_await Exchange(&**peer, Encode(request), MessageType::kReleased,
                                          options_.io_timeout, limit.Token());
    if (answer.has_value()) {
      peer->Keep();
      co_return;
    }
    if (answer.error().code != Code::kConnectionLost || !(*peer)->reused) co_return;
  }
}

rt::Task<Result<size_t>> KvReader::Heartbeat(LeaseSource owner, std::vector<kv::LeaseId> leases,
                                             rt::CancelToken cancel) {
  CO_TRY_ASSIGN(PeerHandle peer, co_await peers_->Acquire(owner, false, cancel));
  size_t held = 0;
  for (size_t at = 0; at < leases.size(); at += kMaxLeasesPerHeartbeat) {
    const size_t n = std::min(leases.size() - at, kMaxLeasesPerHeartbeat);
    const auto first = leases.begin() + static_cast<ptrdiff_t>(at);
    xfer::Heartbeat beat;
    beat.leases.assign(first, first + static_cast<ptrdiff_t>(n));
    CO_TRY_ASSIGN(const Message answer,
                  co_await Exchange(&*peer, Encode(beat), MessageType::kHeartbeatAck,
                                    options_.io_timeout, cancel));
    CO_TRY_ASSIGN(const HeartbeatAck ack, Decode<HeartbeatAck>(answer.body));
    held += ack.held;
  }
  peer.Keep();
  co_return held;
}

}  // namespace tandem::xfer

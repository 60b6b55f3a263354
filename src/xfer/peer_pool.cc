#include "xfer/peer_pool.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "xfer/fd_passing.h"

namespace tandem::xfer::internal {
namespace {

constexpr std::string_view kBuild = "tandem";
constexpr Duration kFetchFdTimeout = std::chrono::seconds(2);

Result<ArenaMapping> FetchArena(const KvReader::Options& options, const Welcome& owner,
                                size_t bytes) {
  if (owner.shm_address.empty()) {
    return Err(Code::kUnavailable, "the owner does not offer shared memory");
  }
  auto fd = options.fetch_arena
                ? options.fetch_arena(owner.shm_address, owner.shm_token, owner.incarnation)
                : FetchFd(owner.shm_address, owner.shm_token, owner.incarnation, kFetchFdTimeout);
  if (!fd.has_value()) return std::unexpected(std::move(fd).error());
  return ArenaMapping::Map(*std::move(fd), bytes);
}

}  // namespace

struct Peer {
  Peer(rt::Runtime& runtime, std::string name, rt::Address where)
      : key(std::move(name)), address(std::move(where)), slots(runtime) {}

  std::string key;
  rt::Address address;
  size_t users = 0;  // PeerRefs
  size_t open = 0;   // connections, idle ones and those being made included
  std::vector<std::unique_ptr<PeerConnection>> idle;
  rt::WaitList slots;
  // Weak: connections own the mapping, so that it ends with the last of them.
  std::weak_ptr<const ArenaMapping> mapping;
  uint64_t mapped_incarnation = 0;
  uint64_t unmappable_incarnation = 0;
  std::string unmappable_reason;
  bool numerics_warned = false;
};

PeerRef::PeerRef(Peer* peer) : peer_(peer) { ++peer_->users; }
PeerRef::~PeerRef() {
  if (peer_ != nullptr) --peer_->users;
}

PeerHandle::PeerHandle(PeerPool& pool, PeerRef peer) : pool_(&pool), peer_(std::move(peer)) {
  ++peer_->open;
}
PeerHandle::PeerHandle(PeerHandle&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      peer_(std::move(other.peer_)),
      connection_(std::move(other.connection_)),
      keep_(other.keep_) {}
PeerHandle::~PeerHandle() {
  if (pool_ != nullptr) pool_->GiveBack(*peer_.get(), std::move(connection_), keep_);
}
void PeerHandle::Drop() {
  std::exchange(pool_, nullptr)->GiveBack(*peer_.get(), std::move(connection_), /*keep=*/false);
}

PeerPool::PeerPool(rt::Runtime& runtime, const KvReader::Options& options, Metrics& metrics)
    : runtime_(runtime),
      options_(options),
      numerics_mismatches_(metrics.GetCounter(
          "tandem_kv_numerics_mismatch_total",
          "connections to prefill workers whose numerics id differs from this worker's")),
      shm_refused_(metrics.GetCounter("tandem_kv_shm_refused_total",
                                      "prefill workers whose arena could not be mapped")),
      scope_(runtime) {}

PeerPool::~PeerPool() {
  for (const auto& [key, peer] : peers_) CHECK(peer->users == 0);
}

Result<PeerRef> PeerPool::FindPeer(const LeaseSource& source) {
  rt::Address address;
  address.host = source.host;
  address.port = source.port;
  if (address.host.empty() || address.IsUnix() || address.port == 0) {
    return Err(Code::kInvalidArgument, "'{}' port {} is not the address of a KV side channel",
               source.host, source.port);
  }
  std::string key = address.ToString();
  if (const auto it = peers_.find(key); it != peers_.end()) return PeerRef(it->second.get());
  if (peers_.size() >= options_.max_peers) {
    const auto unused =
        std::ranges::find_if(peers_, [](const auto& item) { return item.second->users == 0; });
    if (unused == peers_.end()) {
      return Err(Code::kOverloaded, "transfers from {} prefill workers are under way, the limit",
                 peers_.size());
    }
    peers_.erase(unused);
  }
  auto peer = std::make_unique<Peer>(runtime_, key, std::move(address));
  Peer* raw = peer.get();
  peers_.emplace(std::move(key), std::move(peer));
  return PeerRef(raw);
}

std::unique_ptr<PeerConnection> PeerPool::TakeIdle(Peer& peer, const LeaseSource& source) {
  for (size_t i = peer.idle.size(); i > 0; --i) {
    auto& candidate = peer.idle[i - 1];
    const Welcome& owner = candidate->welcome;
    if (candidate->gone || owner.incarnation != source.incarnation ||
        owner.engine_id != source.engine_id) {
      continue;
    }
    std::unique_ptr<PeerConnection> taken = std::move(candidate);
    peer.idle.erase(peer.idle.begin() + static_cast<ptrdiff_t>(i - 1));
    taken->reused = true;
    return taken;
  }
  return nullptr;
}

rt::Task<Result<PeerHandle>> PeerPool::Acquire(LeaseSource source, bool fresh,
                                               rt::CancelToken cancel) {
  CO_TRY_ASSIGN(const PeerRef peer, FindPeer(source));
  while (true) {
    if (stopped_) co_return Err(Code::kCancelled, "shutting down");
    if (!fresh) {
      if (auto idle = TakeIdle(*peer.get(), source); idle != nullptr) {
        --peer->open;  // the handle counts it again
        PeerHandle handle(*this, PeerRef(peer.get()));
        handle.connection_ = std::move(idle);
        co_return handle;
      }
    }
    if (peer->open < options_.max_connections_per_peer) break;
    if (!peer->idle.empty()) {  // of another life of the owner, or gone
      peer->idle.erase(peer->idle.begin());
      --peer->open;
      break;
    }
    CO_TRY(co_await peer->slots.Wait(cancel));
  }
  PeerHandle handle(*this, PeerRef(peer.get()));
  CO_TRY_ASSIGN(handle.connection_, co_await Dial(peer.get(), cancel));
  const Welcome& welcome = handle->welcome;
  if (welcome.incarnation != source.incarnation || welcome.engine_id != source.engine_id) {
    handle.Keep();
    co_return Err(Code::kStale,
                  "the prefill worker at {} restarted: '{}' life {:016x} is there, "
                  "'{}' life {:016x} granted the lease",
                  peer->key, welcome.engine_id, welcome.incarnation, source.engine_id,
                  source.incarnation);
  }
  co_return handle;
}

rt::Task<Result<std::unique_ptr<PeerConnection>>> PeerPool::Dial(Peer* peer,
                                                                 rt::CancelToken cancel) {
  auto stream =
      co_await runtime_.network().Connect(peer->address, options_.connect_timeout, cancel);
  if (!stream.has_value()) {
    co_return Err(stream.error().code, "the KV side channel at {} cannot be reached: {}", peer->key,
                  stream.error().message);
  }
  auto connection = std::make_unique<PeerConnection>(
      FrameStream(runtime_, *std::move(stream), options_.io_timeout));
  CO_TRY(co_await Greet(peer, connection.get(), cancel));
  connection->on_gone =
      connection->frames.stream().OnPeerGone([this, raw = connection.get(), key = peer->key] {
        raw->gone = true;
        scope_.Spawn(Sweep(key));
      });
  co_return connection;
}

rt::Task<Status> PeerPool::Greet(Peer* peer, PeerConnection* connection, rt::CancelToken cancel) {
  Hello hello;
  hello.build = kBuild;
  hello.identity = options_.identity;
  hello.engine_id = options_.engine_id;
  CO_TRY(co_await connection->frames.Write(Encode(hello), cancel));
  CO_TRY_ASSIGN(const Message answer,
                co_await connection->frames.ReadMessage(cancel, options_.io_timeout));
  if (answer.type == MessageType::kError) {
    CO_TRY_ASSIGN(Error error, Decode<Error>(answer.body));
    co_return std::unexpected(std::move(error));
  }
  if (answer.type != MessageType::kWelcome) {
    co_return Err(Code::kCorrupt, "{} is not a KV side channel", peer->key);
  }
  CO_TRY_ASSIGN(connection->welcome, Decode<Welcome>(answer.body));
  const Welcome& welcome = connection->welcome;
  if (welcome.major != kProtocolMajor) {
    co_return Err(Code::kIncompatible,
                  "side channel version {} on this decode worker, {} on the "
                  "prefill worker at {}",
                  kProtocolMajor, welcome.major, peer->key);
  }
  CO_TRY(CheckCompatible(options_.identity, welcome.identity));
  if (welcome.identity.numerics_id != options_.identity.numerics_id) {
    numerics_mismatches_.Add();
    if (!std::exchange(peer->numerics_warned, true)) {
      LOG_WARN(
          "numerics id is '{}' here and '{}' on the prefill worker at {}: transfers work, but "
          "output may differ in detail from that of one worker; run both on the same kind of "
          "CPU for equal output",
          options_.identity.numerics_id, welcome.identity.numerics_id, peer->key);
    }
  }
  co_return Status();
}

void PeerPool::GiveBack(Peer& peer, std::unique_ptr<PeerConnection> connection, bool keep) {
  const bool idle = keep && connection != nullptr && !connection->gone && !stopped_ &&
                    peer.idle.size() < options_.max_idle_per_peer;
  if (idle) {
    peer.idle.push_back(std::move(connection));
  } else {
    connection.reset();
    --peer.open;
  }
  peer.slots.WakeOne();
}

// Closes idle connections whose owner is gone, and with the last one unmaps its arena.
rt::Task<void> PeerPool::Sweep(std::string key) {
  const auto it = peers_.find(key);
  if (it == peers_.end()) co_return;
  Peer& peer = *it->second;
  const size_t swept = std::erase_if(peer.idle, [](const auto& c) { return c->gone; });
  peer.open -= swept;
  for (size_t i = 0; i < swept; ++i) peer.slots.WakeOne();
  if (peer.users == 0 && peer.open == 0) peers_.erase(it);
}

rt::Task<Status> PeerPool::MapArena(PeerHandle& handle) {
  Peer& peer = *handle.peer_.get();
  const Welcome& welcome = handle->welcome;
  if (handle->mapping != nullptr) co_return Status();
  if (peer.mapped_incarnation == welcome.incarnation) {
    handle->mapping = peer.mapping.lock();
    if (handle->mapping != nullptr) co_return Status();
  }
  if (peer.unmappable_incarnation == welcome.incarnation) {
    co_return Err(Code::kUnavailable, "{}", peer.unmappable_reason);
  }
  const size_t bytes = welcome.blocks * options_.identity.block_bytes;
  std::optional<Result<ArenaMapping>> mapping;
  // The references stay good: a task destroyed while a helper thread works for it waits for that.
  co_await runtime_.RunBlocking(
      [this, &welcome, &mapping, bytes] { mapping.emplace(FetchArena(options_, welcome, bytes)); });
  if (!mapping->has_value()) {
    peer.unmappable_incarnation = welcome.incarnation;
    peer.unmappable_reason = mapping->error().message;
    shm_refused_.Add();
    co_return Err(Code::kUnavailable, "{}", mapping->error().message);
  }
  handle->mapping = std::make_shared<const ArenaMapping>(**std::move(mapping));
  peer.mapping = handle->mapping;
  peer.mapped_incarnation = welcome.incarnation;
  co_return Status();
}

rt::Task<void> PeerPool::Stop() {
  stopped_ = true;
  for (const auto& [key, peer] : peers_) {
    peer->open -= peer->idle.size();
    peer->idle.clear();
    peer->slots.WakeAll();
  }
  scope_.Cancel();
  co_await scope_.Join();
}

size_t PeerPool::connections() const {
  size_t n = 0;
  for (const auto& [key, peer] : peers_) n += peer->open;
  return n;
}

size_t PeerPool::mappings() const {
  size_t n = 0;
  for (const auto& [key, peer] : peers_) n += peer->mapping.expired() ? 0 : 1;
  return n;
}

}  // namespace tandem::xfer::internal

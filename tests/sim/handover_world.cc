#include "handover_world.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::xfer::handover {
namespace {

constexpr size_t kMaxOffers = 16;
constexpr int kBlockTokens = 16;

Arena MakeArena(int32_t blocks) {
  auto arena = Arena::Create({.block_bytes = kBlockBytes, .blocks = blocks, .shared = true});
  CHECK(arena.has_value());
  return *std::move(arena);
}

kv::LeaseTable::Options TableOptions(const OwnerOptions& options) {
  kv::LeaseTable::Options table;
  table.incarnation = options.incarnation;
  table.lease = options.lease;
  return table;
}

KvServer::Options ServerOptions(const OwnerOptions& options) {
  KvServer::Options server;
  server.engine_id = options.name;
  server.identity = TestIdentity();
  server.listen.host = "127.0.0.1";
  server.listen.port = options.port;
  server.io_timeout = std::chrono::milliseconds(500);
  server.idle_timeout = std::chrono::seconds(2);
  return server;
}

KvReader::Options ReaderOptions(const Board& board, std::vector<std::string> transports) {
  KvReader::Options reader;
  reader.identity = TestIdentity();
  reader.engine_id = "reader";
  reader.transports = std::move(transports);
  reader.max_connections_per_peer = 3;
  reader.max_idle_per_peer = 2;
  reader.connect_timeout = std::chrono::milliseconds(200);
  reader.io_timeout = std::chrono::milliseconds(400);
  reader.fetch_arena = [&board](const std::string& address, uint64_t, uint64_t) -> Result<Fd> {
    const auto it = board.arena_fds.find(address);
    if (it == board.arena_fds.end()) return Err(Code::kUnavailable, "no such arena");
    return Fd(dup(it->second));
  };
  return reader;
}

}  // namespace

uint64_t ContentWord(uint64_t incarnation, const kv::BlockRef& ref, size_t word) {
  uint64_t x = incarnation * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(ref.block) * 1000003 +
               ref.generation * 0xd1342543de82ef95ULL + word;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

void FillBlock(std::byte* block, uint64_t incarnation, const kv::BlockRef& ref) {
  for (size_t i = 0; i < kBlockBytes / 8; ++i) {
    const uint64_t word = ContentWord(incarnation, ref, i);
    std::memcpy(block + i * 8, &word, 8);
  }
}

bool HasContent(const std::byte* block, uint64_t incarnation, const kv::BlockRef& ref) {
  for (size_t i = 0; i < kBlockBytes / 8; ++i) {
    const uint64_t word = ContentWord(incarnation, ref, i);
    if (std::memcmp(block + i * 8, &word, 8) != 0) return false;
  }
  return true;
}

KvIdentity TestIdentity() {
  KvIdentity id;
  id.model_digest = "m";
  id.layout_id = "test-layout";
  id.dtype = "f16";
  id.block_tokens = kBlockTokens;
  id.block_bytes = kBlockBytes;
  id.numerics_id = "n";
  return id;
}

OwnerProcess::OwnerProcess(rt::SimHost& host, Board& board, OwnerOptions options, uint64_t seed)
    : host_(host),
      board_(board),
      options_(std::move(options)),
      dice_(seed),
      arena_(MakeArena(options_.blocks)),
      pool_({.blocks = options_.blocks, .block_tokens = kBlockTokens}),
      leases_(TableOptions(options_)),
      server_(host, arena_, leases_, ServerOptions(options_), metrics_),
      scope_(host) {}

OwnerProcess::~OwnerProcess() { board_.arena_fds.erase(server_.shm_address()); }

void OwnerProcess::Start() {
  const Status started = server_.Start();
  CHECK(started.has_value());
  board_.arena_fds[server_.shm_address()] = arena_.fd();
  scope_.Spawn(Schedule());
}

rt::Task<void> OwnerProcess::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
  co_await server_.Stop();
}

rt::Task<void> OwnerProcess::Schedule() {
  while (!scope_.Token().Cancelled()) {
    TakeBack();
    if (!board_.winding_down) {
      if (dice_.OneIn(3)) ComputePrompt();
      if (dice_.OneIn(4)) RecycleEverything();
    }
    const Duration pause = dice_.UpTo(std::chrono::milliseconds(4));
    if (!(co_await host_.Sleep(pause, scope_.Token())).has_value()) break;
  }
}

void OwnerProcess::TakeBack() {
  leases_.Expire(host_.Now());
  for (const kv::FreedLease& freed : leases_.TakeFreed()) pool_.Unref(freed.blocks);
}

// One of a few prompts with common beginnings, so that leases share blocks.
void OwnerProcess::ComputePrompt() {
  kv::SequenceHasher hasher(kv::RootHash(), kBlockTokens);
  const auto length = static_cast<size_t>(1 + dice_.Below(6));
  const auto first = static_cast<kv::TokenId>(dice_.Below(3));
  for (size_t i = 0; i < length * kBlockTokens; ++i) {
    hasher.Append(first + static_cast<kv::TokenId>(i));
  }
  std::vector<kv::BlockId> blocks;
  const auto hits = pool_.Reserve(hasher.hashes(), length, blocks);
  if (!hits.has_value()) return;
  const std::vector<kv::BlockRef> refs = pool_.WithGenerations(blocks);
  for (size_t i = *hits; i < length; ++i) {
    FillBlock(arena_.Block(blocks[i]), options_.incarnation, refs[i]);
    pool_.Publish(blocks[i], hasher.hashes()[i]);
  }
  const auto granted = leases_.Grant(std::to_string(++prompts_), refs, host_.Now());
  if (!granted.has_value()) {
    pool_.Unref(blocks);
    return;
  }
  ++board_.granted;
  TransferParams params;
  params.engine_id = options_.name;
  params.incarnation = options_.incarnation;
  params.lease = granted->lease;
  params.request_id = std::to_string(prompts_);
  params.host = "127.0.0.1";
  params.port = options_.port;
  params.blocks = refs;
  params.lease_duration = options_.lease;
  if (board_.offers.size() >= kMaxOffers) board_.offers.erase(board_.offers.begin());
  board_.offers.push_back(std::move(params));
}

// Gives every free block, cached or not, new content at once: nothing that is still needed may be
// among them.
void OwnerProcess::RecycleEverything() {
  std::vector<kv::BlockId> blocks;
  CHECK(pool_.Allocate(static_cast<size_t>(pool_.free_blocks()), blocks).has_value());
  for (const kv::BlockRef& ref : pool_.WithGenerations(blocks)) {
    FillBlock(arena_.Block(ref.block), options_.incarnation, ref);
  }
  pool_.Unref(blocks);
}

ReaderProcess::ReaderProcess(rt::SimHost& host, Board& board, std::vector<std::string> transports,
                             uint64_t seed)
    : host_(host),
      board_(board),
      dice_(seed),
      reader_(host, ReaderOptions(board, std::move(transports)), metrics_),
      keeper_(host, reader_, metrics_),
      scope_(host) {}

ReaderProcess::~ReaderProcess() = default;

void ReaderProcess::Start() { scope_.Spawn(Generate()); }

rt::Task<void> ReaderProcess::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
  co_await keeper_.Stop();
  co_await reader_.Stop();
}

bool ReaderProcess::Clean() const {
  return reader_.pulls() == 0 && reader_.releases() == 0 && reader_.connections() == 0 &&
         reader_.mappings() == 0 && keeper_.holds() == 0;
}

rt::Task<void> ReaderProcess::Generate() {
  while (!scope_.Token().Cancelled() && !board_.winding_down) {
    if (!board_.offers.empty() && scope_.Size() < 8) {
      scope_.Spawn(OneRequest(board_.offers[dice_.Below(board_.offers.size())]));
    }
    const Duration pause = dice_.UpTo(std::chrono::milliseconds(8));
    if (!(co_await host_.Sleep(pause, scope_.Token())).has_value()) break;
  }
}

rt::Task<void> ReaderProcess::OneRequest(TransferParams params) {
  HandoverKeeper::Hold hold;
  if (!dice_.OneIn(3)) hold = keeper_.Keep(params);
  const Duration wait =
      dice_.UpTo(dice_.OneIn(2) ? params.lease_duration * 2 : std::chrono::milliseconds(1));
  if (!(co_await host_.Sleep(wait, scope_.Token())).has_value()) co_return;

  std::vector<kv::BlockRef> asked = params.blocks;
  asked.erase(asked.begin(), asked.begin() + static_cast<ptrdiff_t>(dice_.Below(asked.size())));
  // Now and then a reader asks for content that the lease does not cover.
  if (dice_.OneIn(10)) asked.back().generation += 1 + dice_.Below(4);
  std::vector<std::byte> memory(asked.size() * kBlockBytes);
  std::vector<PullBlock> blocks;
  for (size_t i = 0; i < asked.size(); ++i) {
    blocks.push_back({asked[i], memory.data() + i * kBlockBytes});
  }
  rt::CancelSource cancel(scope_.Token());
  std::unique_ptr<rt::Timer> impatience;
  if (dice_.OneIn(4)) {
    impatience = host_.RunAt(host_.Now() + dice_.UpTo(params.lease_duration),
                             [&cancel] { cancel.Cancel(); });
  }
  const Duration limit = dice_.UpTo(params.lease_duration * 4);
  const auto result = co_await reader_.Pull(LeaseSource::Of(params), std::move(blocks),
                                            dice_.OneIn(2), cancel.Token(), host_.Now() + limit);
  Judge(params, asked, memory, result);
  if (dice_.OneIn(2)) reader_.Release(LeaseSource::Of(params));
}

void ReaderProcess::Judge(const TransferParams& params, const std::vector<kv::BlockRef>& asked,
                          const std::vector<std::byte>& memory, const Result<PullStats>& result) {
  if (!result.has_value()) {
    ++(result.error().code == Code::kStale ? board_.stale : board_.failed);
    return;
  }
  ++board_.pulled;
  ++board_.by_transport[result->transport];
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::byte* block = memory.data() + i * kBlockBytes;
    if (!HasContent(block, params.incarnation, asked[i])) ++board_.foreign;
  }
}

}  // namespace tandem::xfer::handover

#include "engine/transfer_side.h"

#include <algorithm>

#include "base/check.h"
#include "engine/transfer_json.h"

namespace tandem::engine {
namespace {

xfer::KvReader::Options ReaderOptions(const TransferOptions& options) {
  xfer::KvReader::Options reader;
  reader.identity = options.identity;
  reader.engine_id = options.engine_id;
  reader.transports = options.transports;
  return reader;
}

xfer::KvServer::Options ServerOptions(const TransferOptions& options) {
  const auto& transports = options.transports;
  xfer::KvServer::Options server;
  server.engine_id = options.engine_id;
  server.identity = options.identity;
  server.listen = options.listen;
  server.offer_shm = std::find(transports.begin(), transports.end(), "shm") != transports.end();
  return server;
}

}  // namespace

TransferSide::TransferSide(rt::Runtime& runtime, const xfer::Arena& arena, kv::LeaseTable& leases,
                           TransferOptions options, Metrics& metrics,
                           OnPullFinished on_pull_finished)
    : arena_(arena),
      leases_(leases),
      options_(std::move(options)),
      on_pull_finished_(std::move(on_pull_finished)),
      reader_(runtime, ReaderOptions(options_), metrics),
      keeper_(runtime, reader_, metrics),
      scope_(runtime) {
  if (options_.serve)
    server_ =
        std::make_unique<xfer::KvServer>(runtime, arena, leases, ServerOptions(options_), metrics);
}

Status TransferSide::Start() { return server_ == nullptr ? Status() : server_->Start(); }

rt::Task<void> TransferSide::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
  entries_.clear();
  co_await keeper_.Stop();
  co_await reader_.Stop();
  if (server_ != nullptr) co_await server_->Stop();
}

RemoteKv TransferSide::Begin(RequestKey key, xfer::TransferParams params) {
  Entry entry{.params = std::move(params), .hold = {}, .pull = nullptr};
  entry.hold = keeper_.Keep(entry.params);
  RemoteKv remote{.blocks = entry.params.blocks,
                  .tokens = entry.params.num_tokens,
                  .give_up = entry.hold.give_up()};
  const bool added = entries_.emplace(key, std::move(entry)).second;
  CHECK(added);
  return remote;
}

void TransferSide::Execute(TransferCommand command) {
  const auto found = entries_.find(command.key);
  const bool known = found != entries_.end();
  switch (command.kind) {
    case TransferCommand::Kind::kPull: {
      if (!known)  // abandoned meanwhile; the scheduler still waits for the end of this pull
        return on_pull_finished_(command.pull, Err(Code::kCancelled, "the request is gone"));
      Entry& entry = found->second;
      entry.pull = std::make_unique<rt::CancelSource>(scope_.Token());
      auto task = Pull(std::move(command), xfer::LeaseSource::Of(entry.params), entry.pull->Token(),
                       entry.hold.give_up());
      return scope_.Spawn(std::move(task));
    }
    case TransferCommand::Kind::kCancel:
      if (known && found->second.pull) found->second.pull->Cancel();
      return;
    case TransferCommand::Kind::kRelease:
      return Abandon(command.key);
  }
}

void TransferSide::Abandon(RequestKey key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry entry = std::move(found->second);
  entries_.erase(found);
  if (entry.pull) entry.pull->Cancel();
  reader_.Release(xfer::LeaseSource::Of(entry.params));
}

rt::Task<void> TransferSide::Pull(TransferCommand command, xfer::LeaseSource source,
                                  rt::CancelToken cancel, MonoTime give_up) {
  std::vector<xfer::PullBlock> blocks;
  blocks.reserve(command.remote_blocks.size());
  for (size_t i = 0; i < command.remote_blocks.size(); ++i)
    blocks.push_back(
        {.remote = command.remote_blocks[i], .destination = arena_.Block(command.local_blocks[i])});
  auto pulled = co_await reader_.Pull(std::move(source), std::move(blocks), /*release=*/true,
                                      std::move(cancel), give_up);
  if (!pulled) {
    if (const auto found = entries_.find(command.key); found != entries_.end())
      found->second.pull.reset();
    on_pull_finished_(command.pull, std::unexpected(std::move(pulled).error()));
    co_return;
  }
  entries_.erase(command.key);  // Close has released the lease
  on_pull_finished_(command.pull, PullDone{.bytes = pulled->bytes,
                                           .seconds = pulled->seconds,
                                           .transport = std::move(pulled->transport)});
}

std::string TransferSide::Describe(const GrantedKv& granted, const std::string& request_id) const {
  CHECK(server_ != nullptr);
  xfer::TransferParams params;
  params.engine_id = options_.engine_id;
  params.incarnation = leases_.incarnation();
  params.lease = granted.lease;
  params.request_id = request_id;
  params.host = options_.advertised_host.empty() ? options_.listen.host : options_.advertised_host;
  params.port = server_->address().port;
  params.blocks = granted.blocks;
  params.num_tokens = granted.tokens;
  params.expiry_seconds = ToSeconds(granted.expiry.time_since_epoch());
  params.lease_duration = leases_.lease_duration();
  return WriteTransfer(params);
}

size_t TransferSide::connections() const {
  return reader_.connections() + (server_ == nullptr ? 0 : server_->connections());
}

std::string TransferSide::side_channel() const {
  return server_ == nullptr ? "" : server_->address().ToString();
}

}  // namespace tandem::engine

#include "engine/loaded_engine.h"

#include <algorithm>

#include "base/log.h"
#include "kv/block_hash.h"

namespace tandem::engine {

SchedulerOptions MakeSchedulerOptions(const WorkerOptions& options, const KvBudget& budget,
                                      const ModelArtifacts& artifacts) {
  SchedulerOptions scheduler;
  scheduler.blocks = budget.blocks;
  scheduler.block_tokens = options.block_size;
  scheduler.prefix_caching = options.enable_prefix_caching;
  scheduler.root = options.hash_seed.empty() ? kv::RootHash() : kv::RootHash(options.hash_seed);
  scheduler.max_num_seqs = options.max_num_seqs;
  scheduler.max_num_batched_tokens = options.max_num_batched_tokens > 0
                                         ? options.max_num_batched_tokens
                                         : std::max(512, options.max_num_seqs);
  scheduler.max_model_len = budget.max_model_len;
  scheduler.max_waiting = options.max_waiting;
  scheduler.vocab = artifacts.vocab;
  scheduler.eos_ids = artifacts.eos_ids;
  return scheduler;
}

std::optional<TransferOptions> MakeTransferOptions(rt::Runtime& runtime,
                                                   const WorkerOptions& options,
                                                   const xfer::KvIdentity& identity) {
  if (!options.kv_transfer) return std::nullopt;
  TransferOptions transfer;
  transfer.engine_id = options.kv_transfer->engine_id.empty()
                           ? fmt::format("{:016x}{:016x}", runtime.Random(), runtime.Random())
                           : options.kv_transfer->engine_id;
  transfer.identity = identity;
  transfer.lease = options.kv_transfer->lease;
  transfer.transports = options.transports;
  transfer.serve = options.role != Role::kDecode;
  transfer.listen = {options.side_channel_host, options.side_channel_port};
  transfer.advertised_host = !options.advertised_side_channel_host.empty()
                                 ? options.advertised_side_channel_host
                                 : options.advertised_host;
  return transfer;
}

wire::ModelCard MakeCard(const WorkerOptions& options, const SchedulerOptions& scheduler,
                         const ModelArtifacts& artifacts, const xfer::KvIdentity& identity) {
  wire::ModelCard card;
  card.name = options.served_name.empty() ? artifacts.name : options.served_name;
  card.aliases = options.aliases;
  card.role = RoleName(options.role);
  card.max_model_len = scheduler.max_model_len;
  card.kv_block_size = scheduler.block_tokens;
  card.total_kv_blocks = scheduler.blocks;
  card.max_num_seqs = scheduler.max_num_seqs;
  card.max_num_batched_tokens = scheduler.max_num_batched_tokens;
  card.tokenizer_digest = artifacts.tokenizer_digest;
  card.template_digest = artifacts.template_digest;
  card.generation_config_digest = artifacts.generation_digest;
  card.content_format = options.content_format;
  card.weights_digest = identity.model_digest;
  card.kv_layout_id = identity.layout_id;
  card.numerics_id = identity.numerics_id;
  if (options.kv_transfer) card.kv_connector = options.kv_transfer->kv_connector;
  card.engine = options.engine == EngineKind::kMock ? "mock" : "native";
  return card;
}

bool SharesArena(const WorkerOptions& options) {
  return options.kv_transfer && options.role != Role::kDecode &&
         std::find(options.transports.begin(), options.transports.end(), "shm") !=
             options.transports.end();
}

void SayBudget(const WorkerOptions& options, const KvBudget& budget) {
  LOG_INFO("KV arena: {} blocks of {} tokens ({} tokens), from {}", budget.blocks,
           options.block_size, int64_t{budget.blocks} * options.block_size, budget.reason);
  if (budget.clamped)
    LOG_WARN(
        "max-model-len is clamped to {} tokens, what the KV arena holds; give more KV blocks for "
        "longer prompts",
        budget.max_model_len);
}

}  // namespace tandem::engine

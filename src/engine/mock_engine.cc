// The mock engine: the real scheduler, block accounting and hand-over around an executor that only
// models time.
#include "base/hash.h"
#include "engine/loaded_engine.h"
#include "engine/mock_executor.h"

namespace tandem::engine {
namespace {

// Its arena is real memory, but there is no need for much of it.
constexpr int64_t kMostMemory = int64_t{512} << 20;

}  // namespace

rt::Task<Result<LoadedEngine>> LoadMockEngine(rt::Runtime& runtime, Metrics& metrics,
                                              WorkerOptions options) {
  LoadedEngine loaded;
  CO_TRY_ASSIGN(loaded.artifacts, ReadArtifacts(options));
  if (loaded.artifacts.text_ids.empty())
    co_return Err(Code::kUnsupported, "the vocabulary of {} has no ordinary token",
                  options.model_path);
  options.mock.vocab = loaded.artifacts.vocab;
  CO_TRY_ASSIGN(const KvBudget budget,
                PlanKv(options, options.mock.context_length, options.mock.block_bytes,
                       std::min(AvailableMemory(), kMostMemory)));
  SayBudget(options, budget);

  const xfer::KvIdentity identity{
      .model_digest = Hex(Sha256("mock " + loaded.artifacts.tokenizer_digest)),
      .layout_id = fmt::format("mock-b{}-{}", options.block_size, options.mock.block_bytes),
      .dtype = "u64",
      .block_tokens = static_cast<uint32_t>(options.block_size),
      .block_bytes = options.mock.block_bytes,
      .numerics_id = "mock"};
  EngineCoreOptions core;
  core.role = options.role;
  core.scheduler = MakeSchedulerOptions(options, budget, loaded.artifacts);
  core.transfer = MakeTransferOptions(runtime, options, identity);
  core.own_thread = false;
  CO_TRY_ASSIGN(xfer::Arena arena, xfer::Arena::Create({.block_bytes = options.mock.block_bytes,
                                                        .blocks = budget.blocks,
                                                        .shared = SharesArena(options)}));
  auto executor = std::make_unique<MockExecutor>(
      options.mock, options.block_size,
      model::KvArena{.base = arena.data(), .blocks = arena.blocks()}, loaded.artifacts.text_ids);
  loaded.card = MakeCard(options, core.scheduler, loaded.artifacts, identity);
  core.labels = {{"model_name", loaded.card.name}, {"engine", "0"}};
  auto engine = std::make_unique<EngineCore>(runtime, metrics, std::move(core), std::move(arena),
                                             std::move(executor));
  CO_TRY(engine->Start());
  loaded.engine = std::move(engine);
  co_return loaded;
}

}  // namespace tandem::engine

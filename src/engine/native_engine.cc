// The native engine: a GGUF model on this machine's cores.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "engine/loaded_engine.h"
#include "engine/native_executor.h"
#include "model/model.h"
#include "model/model_files.h"
#include "rt/core_board.h"
#include "rt/team.h"

namespace tandem::engine {
namespace {

// A team that owns its seat at the core board.
class BoardTeam final : public Team {
 public:
  BoardTeam(std::unique_ptr<rt::CoreBoard> board, rt::ThreadTeamOptions options)
      : board_(std::move(board)), team_(With(options, board_.get())) {}
  int MaxSize() const override { return team_.MaxSize(); }
  void Run(FunctionRef<void(TeamMember&)> work) override { team_.Run(work); }

 private:
  static rt::ThreadTeamOptions With(rt::ThreadTeamOptions options, rt::CoreBoard* board) {
    options.board = board;
    return options;
  }
  const std::unique_ptr<rt::CoreBoard> board_;
  rt::ThreadTeam team_;
};

std::unique_ptr<Team> MakeTeam(const WorkerOptions& options) {
  const int cores = rt::AvailableCores();
  rt::ThreadTeamOptions team;
  team.max_threads = options.threads > 0 ? options.threads : cores;
  std::unique_ptr<rt::CoreBoard> board;
  if (options.cpu_share > 0) {
    team.cpu_share = options.cpu_share;
  } else {
    rt::CoreBoardOptions seat;
    if (!options.core_board.empty()) seat.directory = options.core_board;
    seat.max_cores = team.max_threads;
    if (auto opened = rt::CoreBoard::Open(seat)) {
      board = *std::move(opened);
    } else {
      LOG_WARN(
          "no core board ({}): workers of this host do not share its cores fairly; give each its "
          "part with --cpu-share",
          opened.error().message);
    }
  }
  const bool shared = board != nullptr;
  auto made = std::make_unique<BoardTeam>(std::move(board), team);
  LOG_INFO("up to {} compute threads on {} available cores{}", made->MaxSize(), cores,
           shared ? ", shared by the core board" : "");
  if (options.cpu_share > 0 && options.cpu_share * cores < 1)
    LOG_WARN(
        "--cpu-share {} of {} cores is less than one: this worker computes with one thread, which "
        "takes turns with others as the system decides. To hold it to less, give its control group "
        "a CPU quota",
        options.cpu_share, cores);
  return made;
}

struct Loaded {
  ModelArtifacts artifacts;
  std::unique_ptr<Team> team;
  std::unique_ptr<model::Model> model;
};

// Weights are kept packed in memory beside the KV arena and the system's own needs.
Status CheckSize(const WorkerOptions& options) {
  TRY_ASSIGN(const model::ModelFiles files, model::FindModelFiles(options.model_path));
  double size = 0;
  for (const std::string& file : files.weights) {
    std::error_code failed;
    const uintmax_t bytes = std::filesystem::file_size(file, failed);
    if (!failed) size += static_cast<double>(bytes);
  }
  const auto available = static_cast<double>(AvailableMemory());
  if (size <= 0.7 * available) return {};
  const std::string facts = fmt::format("{} needs {} of memory and {} are available",
                                        options.model_path, FormatBytes(static_cast<int64_t>(size)),
                                        FormatBytes(static_cast<int64_t>(available)));
  if (options.refuse_large_model)
    return Err(Code::kResourceExhausted,
               "{}, of which a model may take 70 %; choose a smaller model or quantisation, free "
               "memory, or try it all the same with --engine native",
               facts);
  LOG_WARN("{}; loading it because --engine native was asked for", facts);
  return {};
}

// On a helper thread: reads, packs and hashes the whole file.
Result<Loaded> LoadModel(const WorkerOptions& options,
                         const std::function<void(double)>& on_progress) {
  Loaded loaded;
  TRY(CheckSize(options));
  TRY_ASSIGN(loaded.artifacts, ReadArtifacts(options));
  loaded.team = MakeTeam(options);
  model::LoadOptions load;
  load.path = options.model_path;
  load.config_overrides = options.hf_overrides;
  load.max_positions = options.max_model_len;
  load.cache_dir = options.cache_dir;
  load.block_tokens = options.block_size;
  TRY_ASSIGN(load.kv_dtype, KvCacheDtype(options));
  load.force_isa = options.force_isa;
  load.progress = on_progress;
  TRY_ASSIGN(loaded.model, model::Model::Load(load, *loaded.team));
  return loaded;
}

xfer::KvIdentity IdentityOf(const model::Model& model) {
  const model::KvLayout& layout = model.kv_layout();
  return {.model_digest = model.WeightsDigest(),
          .layout_id = layout.Id(),
          .dtype = std::string(model::KvDtypeName(layout.dtype)),
          .block_tokens = static_cast<uint32_t>(layout.block_tokens),
          .block_bytes = layout.BlockBytes(),
          .numerics_id = model.NumericsId()};
}

void SayMemory(const model::Model& model, const SchedulerOptions& scheduler, uint64_t arena_bytes,
               bool shared) {
  const auto logits = int64_t{scheduler.max_num_seqs} * model.config().vocab * int64_t{4};
  LOG_INFO(
      "memory: packed weights {}, KV arena {} ({}), logits up to {}, scratch for {} tokens a step; "
      "{} available before the arena is filled",
      FormatBytes(static_cast<int64_t>(model.WeightBytes())),
      FormatBytes(static_cast<int64_t>(arena_bytes)),
      shared ? "a memfd that readers on this host map" : "private", FormatBytes(logits),
      scheduler.max_num_batched_tokens, FormatBytes(AvailableMemory()));
}

Result<LoadedEngine> Assemble(rt::Runtime& runtime, Metrics& metrics, const WorkerOptions& options,
                              Loaded from) {
  LoadedEngine loaded;
  loaded.artifacts = std::move(from.artifacts);
  const xfer::KvIdentity identity = IdentityOf(*from.model);
  TRY_ASSIGN(const KvBudget budget, PlanKv(options, from.model->config().context_length,
                                           identity.block_bytes, AvailableMemory()));
  SayBudget(options, budget);
  EngineCoreOptions core;
  core.role = options.role;
  core.scheduler = MakeSchedulerOptions(options, budget, loaded.artifacts);
  core.scheduler.vocab = from.model->config().vocab;
  core.transfer = MakeTransferOptions(runtime, options, identity);
  TRY_ASSIGN(xfer::Arena arena, xfer::Arena::Create({.block_bytes = identity.block_bytes,
                                                     .blocks = budget.blocks,
                                                     .shared = SharesArena(options)}));
  SayMemory(*from.model, core.scheduler, arena.bytes(), SharesArena(options));
  TRY_ASSIGN(auto executor,
             NativeExecutor::Create(std::move(from.model), std::move(from.team),
                                    model::KvArena{.base = arena.data(), .blocks = arena.blocks()},
                                    {.max_tokens = core.scheduler.max_num_batched_tokens,
                                     .max_logit_rows = core.scheduler.max_num_seqs,
                                     .block_bytes = identity.block_bytes}));
  loaded.card = MakeCard(options, core.scheduler, loaded.artifacts, identity);
  core.labels = {{"model_name", loaded.card.name}, {"engine", "0"}};
  auto engine = std::make_unique<EngineCore>(runtime, metrics, std::move(core), std::move(arena),
                                             std::move(executor));
  TRY(engine->Start());
  loaded.engine = std::move(engine);
  return loaded;
}

}  // namespace

rt::Task<Result<LoadedEngine>> LoadNativeEngine(rt::Runtime& runtime, Metrics& metrics,
                                                WorkerOptions options,
                                                std::function<void(double)> on_progress) {
  const MonoTime start = runtime.Now();
  Result<Loaded> from = Err(Code::kInternal, "the model was not loaded");
  co_await runtime.RunBlocking([&] { from = LoadModel(options, on_progress); });
  if (!from) co_return std::unexpected(std::move(from).error());
  LOG_INFO("{} loaded in {:.2f} s ({} layers, vocabulary {}, {}, numerics {})", options.model_path,
           ToSeconds(runtime.Now() - start), from->model->config().layer_count(),
           from->model->config().vocab, from->model->kv_layout().Id(), from->model->NumericsId());
  co_return Assemble(runtime, metrics, options, *std::move(from));
}

}  // namespace tandem::engine

#include "model/transformer.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tandem::model {
namespace {

size_t MatrixBytes(const PackedMatrix& matrix) {
  return matrix.panels() * PanelBytes(matrix.format, matrix.inputs);
}

AttentionShape ShapeOf(const ModelConfig& config, const KvLayout& layout) {
  return {config.heads, layout.kv_heads, layout.k_dim, layout.v_dim, config.attention_softcap};
}

std::vector<int64_t> WindowsOf(const ModelConfig& config) {
  std::set<int64_t> windows;
  for (const LayerConfig& layer : config.layers) windows.insert(layer.window);
  return {windows.begin(), windows.end()};
}

}  // namespace

Transformer::Transformer(Parts parts)
    : parts_(std::move(parts)),
      config_(parts_.checkpoint->config()),
      ops_(*parts_.ops),
      widths_(config_),
      step_(ops_, config_, widths_, parts_.max_threads, parts_.positions),
      attention_(ShapeOf(config_, parts_.kv_layout), parts_.kv_layout, ops_),
      windows_(WindowsOf(config_)),
      writer_(parts_.kv_layout, ops_),
      ordinary_(step_, attention_, writer_),
      latent_(step_, attention_, writer_),
      mlp_(step_),
      moe_(step_) {
  // Of the experts only those are read that a token goes to.
  for (LayerWeights& layer : parts_.weights.layers) {
    size_t experts = 0;
    for (const MlpWeights& expert : layer.moe.experts)
      experts += MatrixBytes(expert.gate) + MatrixBytes(expert.up) + MatrixBytes(expert.down);
    if (experts > 0)
      weight_bytes_ -=
          experts - experts / layer.moe.experts.size() * static_cast<size_t>(config_.moe.used);
  }
  ForEachMatrix(parts_.weights,
                [this](const PackedMatrix& matrix) { weight_bytes_ += MatrixBytes(matrix); });
}

std::string Transformer::NumericsId() const {
  constexpr int kKernelVersion = 3;
  return fmt::format("{}-{}-k{}", ops_.name, KvDtypeName(parts_.kv_layout.dtype), kKernelVersion);
}

size_t Transformer::WidestInput() const {
  const auto heads = static_cast<size_t>(config_.heads);
  const size_t output =
      latent() ? heads * static_cast<size_t>(config_.mla.value_dim) : heads * widths_.head;
  return std::max({widths_.residual, widths_.inner, widths_.query_latent, RoundUp(output, kBlock)});
}

Status Transformer::ReserveScratch(int max_tokens, int max_logit_rows) {
  max_tokens_ = static_cast<size_t>(std::max(max_tokens, 1));
  max_logit_rows_ = static_cast<size_t>(std::max(max_logit_rows, 0));
  const auto carve = [&](std::byte* at) {
    Carver carver(at);
    step_.Carve(carver, max_tokens_, max_logit_rows_, WidestInput());
    if (latent())
      latent_.Carve(carver, max_tokens_);
    else
      ordinary_.Carve(carver, max_tokens_);
    mlp_.Carve(carver, max_tokens_);
    if (config_.moe.experts > 0) moe_.Carve(carver, max_tokens_);
    return carver.used();
  };
  TRY_ASSIGN(scratch_, Mapping::Anonymous(carve(nullptr)));
  carve(scratch_.data());
  return attention_.Reserve(static_cast<int>(max_tokens_), parts_.max_threads);
}

Status Transformer::Check(std::span<const BatchSlice> slices, const KvArena& arena,
                          std::span<const float> logits) const {
  size_t tokens = 0;
  size_t rows = 0;
  const auto block_tokens = static_cast<size_t>(parts_.kv_layout.block_tokens);
  for (const BatchSlice& slice : slices) {
    const size_t end = static_cast<size_t>(slice.start_position) + slice.tokens.size();
    const size_t blocks = (end + block_tokens - 1) / block_tokens;
    if (slice.tokens.empty() || slice.start_position < 0 || slice.block_table.size() < blocks ||
        slice.logit_rows < 0 || static_cast<size_t>(slice.logit_rows) > slice.tokens.size())
      return Err(Code::kInvalidArgument,
                 "a slice of {} tokens at position {} with {} blocks and {} logit rows",
                 slice.tokens.size(), slice.start_position, slice.block_table.size(),
                 slice.logit_rows);
    for (const TokenId token : slice.tokens)
      if (token < 0 || token >= config_.vocab)
        return Err(Code::kInvalidArgument, "token {} is outside of the vocabulary of {}", token,
                   config_.vocab);
    for (const BlockId block : slice.block_table.first(blocks))
      if (block < 0 || block >= arena.blocks)
        return Err(Code::kInvalidArgument, "block {} is outside of the arena of {}", block,
                   arena.blocks);
    tokens += slice.tokens.size();
    rows += static_cast<size_t>(slice.logit_rows);
  }
  if (tokens > max_tokens_ || rows > max_logit_rows_)
    return Err(Code::kInvalidArgument, "a step of {} tokens and {} logit rows; reserved: {} and {}",
               tokens, rows, max_tokens_, max_logit_rows_);
  if (logits.size() != rows * static_cast<size_t>(config_.vocab))
    return Err(Code::kInvalidArgument, "room for {} logits, {} rows of {} wanted", logits.size(),
               rows, config_.vocab);
  return {};
}

Status Transformer::Forward(std::span<const BatchSlice> slices, KvArena arena, Team& team,
                            std::span<float> logits, const std::atomic<bool>* abort) {
  if (team.MaxSize() > parts_.max_threads)
    return Err(Code::kInvalidArgument, "a team of {}, the model was loaded for {}", team.MaxSize(),
               parts_.max_threads);
  TRY(Check(slices, arena, logits));
  step_.Plan(slices, parts_.kv_layout.block_tokens);
  writer_.SetArena(arena);
  attention_.Plan(slices, arena, team.MaxSize(), windows_);
  team.Run([&](TeamMember& member) { step_.Embed(member, *parts_.weights.embedding); });
  for (int layer = 0; layer < config_.layer_count(); ++layer) {
    if (abort != nullptr && abort->load(std::memory_order_relaxed))
      return Err(Code::kCancelled, "the step was given up before layer {}", layer);
    const bool last = layer + 1 == config_.layer_count();
    step_.SetLast(last);
    attention_.StartLayer(layer, last, config_.layers[static_cast<size_t>(layer)].window);
    team.Run([&](TeamMember& member) { RunLayer(layer, member); });
  }
  if (step_.rows() > 0) team.Run([&](TeamMember& member) { RunHead(member, logits); });
  return {};
}

void Transformer::RunLayer(int index, TeamMember& member) {
  const LayerWeights& layer = parts_.weights.layers[static_cast<size_t>(index)];
  if (latent())
    latent_.Run(index, layer, member);
  else
    ordinary_.Run(index, layer, member);
  if (step_.rows() == 0) return;
  member.Barrier();
  step_.Finish(member, layer.attention_post_norm);
  if (layer.moe.experts.empty())
    mlp_.Run(layer, member);
  else
    moe_.Run(layer, member);
}

void Transformer::RunHead(TeamMember& member, std::span<float> logits) {
  const PackedMatrix& head = parts_.weights.head;
  const size_t rows = step_.rows();
  const auto vocab = static_cast<size_t>(config_.vocab);
  const Activations x = step_.Prepare(member, rows, {&head}, [&](size_t row, float* buffer) {
    return step_.Norm(step_.Residual(row), parts_.weights.final_norm, buffer);
  });
  MultiplyPanels(ops_, head, PartOf(member, head.panels()), x, rows,
                 [&](size_t panel, size_t row, float* outputs) {
                   if (config_.logit_scale != 1.0F)
                     ops_.scale(config_.logit_scale, kPanel, outputs);
                   if (config_.logit_softcap > 0.0F)
                     ops_.soft_cap(config_.logit_softcap, kPanel, outputs);
                   const size_t first = panel * kPanel;
                   std::memcpy(logits.data() + row * vocab + first, outputs,
                               std::min<size_t>(kPanel, vocab - first) * sizeof(float));
                 });
}

}  // namespace tandem::model

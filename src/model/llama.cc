#include "model/llama.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/dequant.h"

namespace tandem::model {
namespace {

// Up to this many rows each thread makes all activations for itself: cheaper than a barrier.
constexpr size_t kRowsForEach = 2;
// Every layer's queries see all positions up to their own.
constexpr int64_t kWindows[] = {0};

// Deals out pieces of a region; without one (null) it only counts the bytes.
class Carver {
 public:
  explicit Carver(std::byte* at) : at_(at) {}
  std::byte* Take(size_t bytes) {
    std::byte* result = at_ == nullptr ? nullptr : at_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return result;
  }
  float* Floats(size_t count) { return reinterpret_cast<float*>(Take(count * sizeof(float))); }
  size_t used() const { return used_; }

 private:
  std::byte* at_;
  size_t used_ = 0;
};

// The part of [0, count) of a region that starts at `first` within a larger range.
Part Within(Part part, size_t first, size_t count) {
  const size_t begin = std::clamp(part.begin, first, first + count) - first;
  const size_t end = std::clamp(part.end, first, first + count) - first;
  return {begin, end};
}

size_t MatrixBytes(const PackedMatrix& matrix) {
  return matrix.panels() * PanelBytes(matrix.format, matrix.inputs);
}

}  // namespace

LlamaModel::LlamaModel(Parts parts)
    : parts_(std::move(parts)),
      ops_(*parts_.ops),
      rope_(parts_.config.head_dim, parts_.config.rope_dims, parts_.config.rope_base),
      attention_({.heads = parts_.config.heads,
                  .kv_heads = parts_.config.kv_heads,
                  .k_dim = parts_.config.head_dim,
                  .v_dim = parts_.config.head_dim},
                 parts_.kv_layout, *parts_.ops),
      writer_(parts_.kv_layout, *parts_.ops),
      embedding_(static_cast<size_t>(parts_.config.embedding)),
      head_dim_(static_cast<size_t>(parts_.config.head_dim)),
      query_width_(static_cast<size_t>(parts_.config.heads) * head_dim_),
      kv_width_(static_cast<size_t>(parts_.config.kv_heads) * head_dim_),
      inner_(static_cast<size_t>(parts_.config.feed_forward)),
      widest_(std::max({embedding_, query_width_, inner_})),
      head_step_(head_dim_ % kPanel == 0 ? kPanel : 16) {
  for (const LayerWeights& layer : parts_.weights.layers)
    for (const PackedMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down})
      weight_bytes_ += MatrixBytes(*matrix);
  weight_bytes_ += MatrixBytes(parts_.weights.head);
}

std::string LlamaModel::NumericsId() const {
  constexpr int kKernelVersion = 2;
  return fmt::format("{}-{}-k{}", ops_.name, KvDtypeName(parts_.kv_layout.dtype), kKernelVersion);
}

Status LlamaModel::ReserveScratch(int max_tokens, int max_logit_rows) {
  max_tokens_ = static_cast<size_t>(std::max(max_tokens, 1));
  max_logit_rows_ = static_cast<size_t>(std::max(max_logit_rows, 0));
  own_.assign(static_cast<size_t>(parts_.max_threads), {});
  own_rest_.assign(own_.size(), {});
  const auto carve = [&](std::byte* at) {
    Carver carver(at);
    residual_ = carver.Floats(max_tokens_ * embedding_);
    queries_ = carver.Floats(max_tokens_ * query_width_);
    keys_ = carver.Floats(max_tokens_ * kv_width_);
    values_ = carver.Floats(max_tokens_ * kv_width_);
    attended_ = carver.Floats(max_tokens_ * query_width_);
    gated_ = carver.Floats(max_tokens_ * inner_);
    cosine_ = carver.Floats(max_tokens_ * head_dim_);
    sine_ = carver.Floats(max_tokens_ * head_dim_);
    const size_t rows = std::max(max_tokens_, max_logit_rows_);
    shared_ = Activations(carver.Take(Activations::Bytes(rows, widest_)), rows, widest_);
    shared_rest_ = Activations(carver.Take(Activations::Bytes(max_tokens_, embedding_)),
                               max_tokens_, embedding_);
    for (Activations& own : own_)
      own = Activations(carver.Take(Activations::Bytes(kRowsForEach, widest_)), kRowsForEach,
                        widest_);
    for (Activations& own : own_rest_)
      own = Activations(carver.Take(Activations::Bytes(kRowsForEach, embedding_)), kRowsForEach,
                        embedding_);
    return carver.used();
  };
  TRY_ASSIGN(scratch_, Mapping::Anonymous(carve(nullptr)));
  carve(scratch_.data());
  places_.reserve(max_tokens_);
  logit_tokens_.reserve(max_logit_rows_);
  return attention_.Reserve(static_cast<int>(max_tokens_), parts_.max_threads);
}

Status LlamaModel::Check(std::span<const BatchSlice> slices, const KvArena& arena,
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
      if (token < 0 || token >= parts_.config.vocab)
        return Err(Code::kInvalidArgument, "token {} is outside of the vocabulary of {}", token,
                   parts_.config.vocab);
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
  if (logits.size() != rows * static_cast<size_t>(parts_.config.vocab))
    return Err(Code::kInvalidArgument, "room for {} logits, {} rows of {} wanted", logits.size(),
               rows, parts_.config.vocab);
  return {};
}

Status LlamaModel::Forward(std::span<const BatchSlice> slices, KvArena arena, Team& team,
                           std::span<float> logits, const std::atomic<bool>* abort) {
  if (team.MaxSize() > parts_.max_threads)
    return Err(Code::kInvalidArgument, "a team of {}, the model was loaded for {}", team.MaxSize(),
               parts_.max_threads);
  TRY(Check(slices, arena, logits));
  Plan(slices, arena, team.MaxSize());
  team.Run([&](TeamMember& member) { Embed(member); });
  for (int layer = 0; layer < parts_.config.layers; ++layer) {
    if (abort != nullptr && abort->load(std::memory_order_relaxed))
      return Err(Code::kCancelled, "the step was given up before layer {}", layer);
    attention_.StartLayer(layer, layer + 1 == parts_.config.layers, kWindows[0]);
    team.Run([&](TeamMember& member) { RunLayer(layer, member); });
  }
  if (!logit_tokens_.empty()) team.Run([&](TeamMember& member) { RunHead(member, logits); });
  return {};
}

void LlamaModel::Plan(std::span<const BatchSlice> slices, KvArena arena, int threads) {
  writer_.SetArena(arena);
  places_.clear();
  logit_tokens_.clear();
  const int64_t block_tokens = parts_.kv_layout.block_tokens;
  for (const BatchSlice& slice : slices) {
    for (size_t i = 0; i < slice.tokens.size(); ++i) {
      const int64_t position = slice.start_position + static_cast<int64_t>(i);
      if (slice.tokens.size() - i <= static_cast<size_t>(slice.logit_rows))
        logit_tokens_.push_back(places_.size());
      places_.push_back({{.block = slice.block_table[static_cast<size_t>(position / block_tokens)],
                          .slot = static_cast<int32_t>(position % block_tokens)},
                         position,
                         slice.tokens[i]});
    }
  }
  attention_.Plan(slices, arena, threads, kWindows);
}

void LlamaModel::Embed(const TeamMember& member) {
  const Tensor& table = *parts_.weights.embedding;
  const size_t row_bytes = RowBytes(table.type, table.Inputs());
  const Part part = PartOf(member, places_.size());
  for (size_t row = part.begin; row < part.end; ++row) {
    const Place& place = places_[row];
    DequantizeRow(table.type, table.bytes.data() + static_cast<size_t>(place.token) * row_bytes,
                  {ResidualRow(row), embedding_});
    rope_.Row(place.position, {cosine_ + row * head_dim_, head_dim_},
              {sine_ + row * head_dim_, head_dim_});
  }
}

template <class Fill>
Activations LlamaModel::Prepare(TeamMember& member, size_t rows,
                                std::initializer_list<const PackedMatrix*> readers, Fill fill,
                                bool with_rest) {
  bool floats = false;
  bool quantized = false;
  for (const PackedMatrix* reader : readers) (reader->quantized() ? quantized : floats) = true;
  const bool for_each = rows <= kRowsForEach;
  const Activations x = (for_each ? own_[static_cast<size_t>(member.index())] : shared_)
                            .WithWidth((*readers.begin())->inputs);
  const Part part = for_each ? Part{0, rows} : PartOf(member, rows);
  for (size_t row = part.begin; row < part.end; ++row) {
    float* buffer = x.Values(row);
    const float* values = fill(row, buffer);
    if (quantized) ops_.quantize(values, x.width(), x.Quantized(row));
    if (with_rest) PrepareRest(values, row, x, Rest(member, rows));
    if (floats && values != buffer) std::memcpy(buffer, values, x.width() * sizeof(float));
  }
  if (!for_each) member.Barrier();
  return x;
}

Activations LlamaModel::Rest(const TeamMember& member, size_t rows) const {
  return (rows <= kRowsForEach ? own_rest_[static_cast<size_t>(member.index())] : shared_rest_)
      .WithWidth(embedding_);
}

void LlamaModel::PrepareRest(const float* values, size_t row, const Activations& x,
                             const Activations& rest) const {
  const QuantizedRow quantized = x.Quantized(row);
  float* left = rest.Values(row);
  for (size_t block = 0; block < x.width() / kBlock; ++block)
    for (size_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
      left[i] = values[i] - quantized.scale[block] * static_cast<float>(quantized.q[i]);
  ops_.quantize(left, x.width(), rest.Quantized(row));
}

void LlamaModel::RunLayer(int index, TeamMember& member) {
  const LayerWeights& layer = parts_.weights.layers[static_cast<size_t>(index)];
  // The last layer matters only to the tokens whose logits are wanted, once keys and values are
  // kept.
  const bool last = index + 1 == parts_.config.layers;
  const size_t rows = last ? logit_tokens_.size() : places_.size();
  const auto residual = [&](size_t row) { return ResidualRow(last ? logit_tokens_[row] : row); };

  Activations x = Prepare(
      member, places_.size(), {&layer.q, &layer.k, &layer.v},
      [&](size_t row, float* buffer) {
        return Norm(ResidualRow(row), layer.attention_norm, buffer);
      },
      layer.v.quantized());
  MultiplyQkv(layer, member, x);
  member.Barrier();
  StoreHeads(index, member);
  if (rows == 0) return;
  member.Barrier();
  attention_.Work(member.index(), queries_, attended_);
  member.Barrier();
  x = Prepare(member, rows, {&layer.output}, [&](size_t row, float* buffer) {
    return attention_.Row(last ? logit_tokens_[row] : row, attended_, buffer);
  });
  const auto add_to_residual = [&](size_t panel, size_t row, const float* outputs) {
    ops_.add(outputs, kPanel, residual(row) + panel * kPanel);
  };
  MultiplyPanels(ops_, layer.output, PartOf(member, layer.output.panels()), x, rows,
                 add_to_residual);
  member.Barrier();
  x = Prepare(member, rows, {&layer.gate, &layer.up}, [&](size_t row, float* buffer) {
    return Norm(residual(row), layer.feed_forward_norm, buffer);
  });
  MultiplyPairs(ops_, layer.gate, layer.up, PartOf(member, layer.gate.panels()), x, rows,
                [&](size_t panel, size_t row, const float* gate, const float* up) {
                  ops_.swiglu(gate, up, kPanel, gated_ + row * inner_ + panel * kPanel);
                });
  member.Barrier();
  x = Prepare(member, rows, {&layer.down},
              [&](size_t row, float*) { return static_cast<const float*>(gated_ + row * inner_); });
  MultiplyPanels(ops_, layer.down, PartOf(member, layer.down.panels()), x, rows, add_to_residual);
}

const float* LlamaModel::Norm(const float* x, const std::vector<float>& weight, float* out) const {
  ops_.rms_norm(x, weight.data(), embedding_, parts_.config.rms_epsilon, out);
  return out;
}

void LlamaModel::MultiplyQkv(const LayerWeights& layer, const TeamMember& member,
                             const Activations& x) {
  const size_t rows = places_.size();
  const size_t q_panels = layer.q.panels();
  const size_t kv_panels = layer.k.panels();
  // Values are worth two passes where they are quantised, so their panels count twice.
  const size_t value_passes = layer.v.quantized() ? 2 : 1;
  const Part part = PartOf(member, q_panels + (1 + value_passes) * kv_panels);
  // The last panel of a narrow matrix may be padded.
  const auto each_step = [&](size_t panel, size_t width, float* outputs, auto store) {
    for (size_t o = 0; o < kPanel && panel * kPanel + o < width; o += head_step_)
      store(panel * kPanel + o, outputs + o);
  };
  MultiplyPanels(ops_, layer.q, Within(part, 0, q_panels), x, rows,
                 [&](size_t panel, size_t row, float* outputs) {
                   each_step(panel, query_width_, outputs, [&](size_t output, float* values) {
                     StoreQuery(row, output, values);
                   });
                 });
  MultiplyPanels(ops_, layer.k, Within(part, q_panels, kv_panels), x, rows,
                 [&](size_t panel, size_t row, float* outputs) {
                   each_step(panel, kv_width_, outputs,
                             [&](size_t output, float* values) { StoreKey(row, output, values); });
                 });
  const auto store_values = [&](size_t panel, size_t row, float* outputs) {
    const size_t first = panel * kPanel;
    std::memcpy(values_ + row * kv_width_ + first, outputs,
                std::min<size_t>(kPanel, kv_width_ - first) * sizeof(float));
  };
  const Part passes = Within(part, q_panels + kv_panels, value_passes * kv_panels);
  const Part v_part = {passes.begin / value_passes, passes.end / value_passes};
  if (layer.v.quantized())
    MultiplyTwice(ops_, layer.v, v_part, x, Rest(member, rows), rows, store_values);
  else
    MultiplyPanels(ops_, layer.v, v_part, x, rows, store_values);
}

void LlamaModel::StoreQuery(size_t row, size_t output, float* values) {
  const size_t turn = row * head_dim_ + output % head_dim_;
  ops_.rope(cosine_ + turn, sine_ + turn, head_step_, values);
  ops_.scale(1.0F / std::sqrt(static_cast<float>(head_dim_)), head_step_, values);
  std::memcpy(queries_ + row * query_width_ + output, values, head_step_ * sizeof(float));
}

void LlamaModel::StoreKey(size_t row, size_t output, float* values) {
  const size_t turn = row * head_dim_ + output % head_dim_;
  ops_.rope(cosine_ + turn, sine_ + turn, head_step_, values);
  std::memcpy(keys_ + row * kv_width_ + output, values, head_step_ * sizeof(float));
}

void LlamaModel::StoreHeads(int layer, const TeamMember& member) const {
  const auto heads = static_cast<size_t>(parts_.config.kv_heads);
  const Part part = PartOf(member, places_.size() * heads);
  for (size_t i = part.begin; i < part.end; ++i)
    writer_.Store(places_[i / heads].kv, layer, static_cast<int>(i % heads), keys_ + i * head_dim_,
                  values_ + i * head_dim_);
}

void LlamaModel::RunHead(TeamMember& member, std::span<float> logits) {
  const PackedMatrix& head = parts_.weights.head;
  const size_t rows = logit_tokens_.size();
  const auto vocab = static_cast<size_t>(parts_.config.vocab);
  const Activations x = Prepare(member, rows, {&head}, [&](size_t row, float* buffer) {
    return Norm(ResidualRow(logit_tokens_[row]), parts_.weights.final_norm, buffer);
  });
  MultiplyPanels(ops_, head, PartOf(member, head.panels()), x, rows,
                 [&](size_t panel, size_t row, const float* outputs) {
                   const size_t first = panel * kPanel;
                   std::memcpy(logits.data() + row * vocab + first, outputs,
                               std::min<size_t>(kPanel, vocab - first) * sizeof(float));
                 });
}

}  // namespace tandem::model

#include "model/attention.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem::model {
namespace {

// Query vectors of an item: enough that widening a tile of keys pays, few enough that their scores
// stay in the nearest caches.
constexpr int kItemVectors = 48;
// Partial results of split rows, per step. Rows beyond it are computed without splitting.
constexpr size_t kPartialBytes = size_t{8} << 20;
// A row is split over its spans only while there are fewer items than this for each thread.
constexpr int kItemsPerThread = 8;
constexpr int kTilesPerSpan = kSpanKeys / kTileKeys;

size_t ElementBytes(KvDtype dtype) { return dtype == KvDtype::kFloat16 ? 2 : 4; }

int32_t SpansOf(int64_t keys) { return static_cast<int32_t>((keys + kSpanKeys - 1) / kSpanKeys); }

// Hands out aligned parts of a block of memory; without one (null) it only counts the bytes.
class Carver {
 public:
  explicit Carver(std::byte* at) : at_(at) {}
  template <class T>
  T* Take(size_t count) {
    T* result = at_ == nullptr ? nullptr : reinterpret_cast<T*>(at_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return result;
  }
  size_t used() const { return used_; }

 private:
  std::byte* at_;
  size_t used_ = 0;
};

}  // namespace

KvAddress::KvAddress(const KvLayout& layout, KvArena arena)
    : base_(arena.base),
      block_bytes_(layout.BlockBytes()),
      head_bytes_(static_cast<size_t>(layout.head_dim * layout.block_tokens) *
                  ElementBytes(layout.dtype)),
      kv_heads_(static_cast<size_t>(layout.kv_heads)) {}

Attention::Attention(const ModelConfig& config, const KvLayout& layout, const Ops& ops)
    : ops_(ops),
      layout_(layout),
      head_dim_(static_cast<size_t>(config.head_dim)),
      width_(static_cast<size_t>(config.heads * config.head_dim)),
      group_(config.heads / config.kv_heads),
      tile_rows_(std::max(1, kItemVectors / group_)) {}

Status Attention::Reserve(int max_tokens, int max_threads) {
  const auto vectors = static_cast<size_t>(tile_rows_ * group_);
  std::vector<Scratch> scratch(static_cast<size_t>(max_threads));
  const auto carve = [&](std::byte* at) {
    Carver carver(at);
    for (Scratch& s : scratch) {
      s.q = carver.Take<float>(vectors * head_dim_);
      s.kernel = carver.Take<float>(AttentionScratch(vectors, head_dim_));
      s.span_out = carver.Take<float>(vectors * head_dim_);
      s.out = carver.Take<float>(vectors * head_dim_);
      s.span_max = carver.Take<float>(vectors);
      s.span_sum = carver.Take<float>(vectors);
      s.max = carver.Take<float>(vectors);
      s.sum = carver.Take<float>(vectors);
      s.limits = carver.Take<int32_t>(vectors);
      s.gathered = carver.Take<std::byte>(2 * kSpanKeys * head_dim_ * ElementBytes(layout_.dtype));
    }
    partials_ = carver.Take<float>(kPartialBytes / sizeof(float));
    return carver.used();
  };
  const size_t bytes = carve(nullptr);
  TRY_ASSIGN(memory_, Mapping::Anonymous(bytes));
  carve(memory_.data());
  scratch_ = std::move(scratch);
  first_token_.reserve(static_cast<size_t>(max_tokens));
  tokens_.reserve(static_cast<size_t>(max_tokens));
  return {};
}

void Attention::Plan(std::span<const BatchSlice> slices, KvArena arena, int threads) {
  slices_ = slices;
  address_ = KvAddress(layout_, arena);
  first_token_.clear();
  tokens_.clear();
  items_.clear();
  logit_items_.clear();
  int32_t next_partial = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    first_token_.push_back(tokens_.size());
    tokens_.resize(tokens_.size() + slices[i].tokens.size(), Token{-1, 0});
    const auto slice = static_cast<int32_t>(i);
    const auto rows = static_cast<int32_t>(slices[i].tokens.size());
    if (rows == 1) {
      const auto first = static_cast<std::ptrdiff_t>(items_.size());
      PlanRow(slice, threads, &next_partial);
      if (slices[i].logit_rows > 0)
        logit_items_.insert(logit_items_.end(), items_.begin() + first, items_.end());
    } else {
      PlanChunk(slice, 0, items_);
      PlanChunk(slice, rows - slices[i].logit_rows, logit_items_);
    }
  }
}

void Attention::PlanRow(int32_t slice, int threads, int32_t* next_partial) {
  const int kv_heads = layout_.kv_heads;
  const int32_t spans = SpansOf(slices_[static_cast<size_t>(slice)].start_position + 1);
  const auto capacity = static_cast<int32_t>(kPartialBytes / sizeof(float) / PartialFloats());
  const int32_t wanted = kv_heads * spans;
  const bool split = spans > 1 &&
                     static_cast<int>(slices_.size()) * kv_heads < kItemsPerThread * threads &&
                     wanted <= capacity - *next_partial;
  for (int32_t head = 0; head < kv_heads; ++head) {
    if (!split) {
      items_.push_back({slice, head, 0, 1, 0, spans, -1});
      continue;
    }
    for (int32_t span = 0; span < spans; ++span)
      items_.push_back({slice, head, 0, 1, span, span + 1, *next_partial + head * spans + span});
  }
  if (split) {
    tokens_.back() = {*next_partial, spans};
    *next_partial += wanted;
  }
}

// The last rows see the most keys, so they come first: the threads then finish together.
void Attention::PlanChunk(int32_t slice, int32_t first_row, std::vector<Item>& items) const {
  const BatchSlice& s = slices_[static_cast<size_t>(slice)];
  const auto rows = static_cast<int32_t>(s.tokens.size());
  for (int32_t end = rows; end > first_row;) {
    const int32_t first = std::max(end - tile_rows_, first_row);
    for (int32_t head = 0; head < layout_.kv_heads; ++head)
      items.push_back({slice, head, first, end - first, 0, SpansOf(s.start_position + end), -1});
    end = first;
  }
}

void Attention::StartLayer(int layer, bool only_logits) {
  layer_ = layer;
  layer_items_ = only_logits ? &logit_items_ : &items_;
  next_item_.store(0, std::memory_order_relaxed);
}

void Attention::Work(int thread, const float* queries, float* out) {
  const Scratch& scratch = scratch_[static_cast<size_t>(thread)];
  for (;;) {
    const size_t i = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (i >= layer_items_->size()) return;
    Run((*layer_items_)[i], scratch, queries, out);
  }
}

void Attention::Run(const Item& item, const Scratch& scratch, const float* queries, float* out) {
  const auto group = static_cast<size_t>(group_);
  const size_t token =
      first_token_[static_cast<size_t>(item.slice)] + static_cast<size_t>(item.first_row);
  const size_t group_width = group * head_dim_;
  const size_t column = static_cast<size_t>(item.kv_head) * group_width;
  const auto rows = static_cast<size_t>(item.rows);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(scratch.q + r * group_width, queries + (token + r) * width_ + column,
                group_width * sizeof(float));
  for (int32_t span = item.first_span; span < item.last_span; ++span) {
    const auto skipped = static_cast<size_t>(RunSpan(item, scratch, span)) * group;
    if (item.partial >= 0) return;
    for (size_t v = skipped; v < rows * group; ++v) {
      const float* from = scratch.span_out + v * head_dim_;
      float* to = scratch.out + v * head_dim_;
      if (span > 0) {
        ops_.merge_span(scratch.span_max[v], scratch.span_sum[v], from, head_dim_, scratch.max + v,
                        scratch.sum + v, to);
        continue;
      }
      std::memcpy(to, from, head_dim_ * sizeof(float));
      scratch.max[v] = scratch.span_max[v];
      scratch.sum[v] = scratch.span_sum[v];
    }
  }
  for (size_t v = 0; v < rows * group; ++v)
    ops_.scale(1.0F / scratch.sum[v], head_dim_, scratch.out + v * head_dim_);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(out + (token + r) * width_ + column, scratch.out + r * group_width,
                group_width * sizeof(float));
}

int Attention::RunSpan(const Item& item, const Scratch& scratch, int span) {
  const BatchSlice& slice = slices_[static_cast<size_t>(item.slice)];
  const int64_t first_key = static_cast<int64_t>(span) * kSpanKeys;
  const int64_t first_position = slice.start_position + item.first_row;
  const auto skipped = static_cast<int32_t>(std::max<int64_t>(first_key - first_position, 0));
  for (int32_t r = skipped; r < item.rows; ++r) {
    const int64_t seen = std::min<int64_t>(first_position + r + 1 - first_key, kSpanKeys);
    std::fill_n(scratch.limits + r * group_, group_, static_cast<int32_t>(seen));
  }
  const size_t skip = static_cast<size_t>(skipped) * static_cast<size_t>(group_);
  const std::byte* k_tiles[kTilesPerSpan];
  const std::byte* v_tiles[kTilesPerSpan];
  SpanArgs args;
  args.k_stride = FillTiles(slice, item.kv_head, first_key, scratch.limits[item.rows * group_ - 1],
                            scratch.gathered, k_tiles, v_tiles);
  args.q = scratch.q + skip * head_dim_;
  args.vectors = (item.rows - skipped) * group_;
  args.head_dim = static_cast<int>(head_dim_);
  args.limits = scratch.limits + skip;
  args.k_tiles = k_tiles;
  args.v_tiles = v_tiles;
  args.dtype = layout_.dtype;
  args.scratch = scratch.kernel;
  if (item.partial >= 0) {
    float* slot = partials_ + static_cast<size_t>(item.partial) * PartialFloats();
    args.out = slot;
    args.max = slot + static_cast<size_t>(group_) * head_dim_;
    args.sum = args.max + group_;
  } else {
    args.out = scratch.span_out + skip * head_dim_;
    args.max = scratch.span_max + skip;
    args.sum = scratch.span_sum + skip;
  }
  ops_.attend_span(args);
  return skipped;
}

size_t Attention::FillTiles(const BatchSlice& slice, int kv_head, int64_t first_key, int keys,
                            std::byte* gathered, const std::byte** k_tiles,
                            const std::byte** v_tiles) const {
  const size_t element = ElementBytes(layout_.dtype);
  const auto block_tokens = static_cast<int64_t>(layout_.block_tokens);
  const bool whole = block_tokens % kTileKeys == 0;
  const size_t tile_bytes = kTileKeys * head_dim_ * element;
  for (int t = 0; t * kTileKeys < keys; ++t) {
    const int64_t position = first_key + t * kTileKeys;
    if (whole) {
      const BlockId block = slice.block_table[static_cast<size_t>(position / block_tokens)];
      const auto slot = static_cast<size_t>(position % block_tokens);
      k_tiles[t] = address_.K(block, layer_, kv_head) + slot * element;
      v_tiles[t] = address_.V(block, layer_, kv_head) + slot * head_dim_ * element;
      continue;
    }
    std::byte* k = gathered + static_cast<size_t>(2 * t) * tile_bytes;
    std::byte* v = k + tile_bytes;
    Gather(slice, kv_head, position, std::min(keys - t * kTileKeys, kTileKeys), k, v);
    k_tiles[t] = k;
    v_tiles[t] = v;
  }
  return static_cast<size_t>(whole ? block_tokens : kTileKeys);
}

// Copies the keys and values of a tile that lies in more than one block.
void Attention::Gather(const BatchSlice& slice, int kv_head, int64_t position, int keys,
                       std::byte* k, std::byte* v) const {
  const size_t element = ElementBytes(layout_.dtype);
  const auto block_tokens = static_cast<int64_t>(layout_.block_tokens);
  for (int i = 0; i < keys; ++i) {
    const BlockId block = slice.block_table[static_cast<size_t>((position + i) / block_tokens)];
    const auto slot = static_cast<size_t>((position + i) % block_tokens);
    const std::byte* from = address_.K(block, layer_, kv_head) + slot * element;
    std::byte* to = k + static_cast<size_t>(i) * element;
    for (size_t d = 0; d < head_dim_; ++d)
      std::memcpy(to + d * kTileKeys * element,
                  from + d * static_cast<size_t>(block_tokens) * element, element);
    std::memcpy(v + static_cast<size_t>(i) * head_dim_ * element,
                address_.V(block, layer_, kv_head) + slot * head_dim_ * element,
                head_dim_ * element);
  }
}

const float* Attention::Row(size_t token, const float* out, float* own) const {
  const Token& t = tokens_[token];
  if (t.partial < 0) return out + token * width_;
  const auto group = static_cast<size_t>(group_);
  for (size_t head = 0; head < static_cast<size_t>(layout_.kv_heads); ++head) {
    const float* slot =
        partials_ +
        (static_cast<size_t>(t.partial) + head * static_cast<size_t>(t.spans)) * PartialFloats();
    for (size_t v = 0; v < group; ++v) {
      float* to = own + (head * group + v) * head_dim_;
      const float* span = slot;
      std::memcpy(to, span + v * head_dim_, head_dim_ * sizeof(float));
      float max = span[group * head_dim_ + v];
      float sum = span[group * (head_dim_ + 1) + v];
      for (int32_t i = 1; i < t.spans; ++i) {
        span += PartialFloats();
        ops_.merge_span(span[group * head_dim_ + v], span[group * (head_dim_ + 1) + v],
                        span + v * head_dim_, head_dim_, &max, &sum, to);
      }
      ops_.scale(1.0F / sum, head_dim_, to);
    }
  }
  return own;
}

}  // namespace tandem::model

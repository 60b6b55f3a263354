#include "model/attention.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/carver.h"

namespace tandem::model {
namespace {

// Query vectors of an item: enough that widening a tile of keys pays, few enough that their scores
// stay in the nearest caches.
constexpr int kItemVectors = 48;
// Partial results of split rows, per step; memory that is only taken once used. Rows beyond it are
// computed without splitting.
constexpr size_t kPartialBytes = size_t{64} << 20;
// A row is split over its spans only while there are fewer items than this for each thread.
constexpr int kItemsPerThread = 8;

// The first key that a query at this position sees.
int64_t FirstKey(int64_t position, int64_t window) {
  return window == 0 ? 0 : std::max<int64_t>(position - window + 1, 0);
}
int32_t SpanOf(int64_t key) { return static_cast<int32_t>(key / kSpanKeys); }

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

}  // namespace

Attention::Attention(const AttentionShape& shape, const KvLayout& layout, const Ops& ops)
    : ops_(ops),
      layout_(layout),
      softcap_(shape.softcap),
      k_dim_(static_cast<size_t>(shape.k_dim)),
      v_dim_(static_cast<size_t>(shape.v_dim)),
      q_width_(static_cast<size_t>(shape.heads) * k_dim_),
      out_width_(static_cast<size_t>(shape.heads) * v_dim_),
      group_(shape.heads / shape.kv_heads),
      parts_(CeilDiv(group_, kItemVectors)),
      part_queries_(CeilDiv(group_, parts_)),
      tile_rows_(std::max(1, kItemVectors / part_queries_)) {
  CHECK(shape.heads % shape.kv_heads == 0);
  CHECK(shape.kv_heads == layout.kv_heads && shape.k_dim == layout.k_dim &&
        shape.v_dim == layout.v_dim);
  CHECK(k_dim_ % kTileKeys == 0 && v_dim_ % kTileKeys == 0);
}

Status Attention::Reserve(int max_tokens, int max_threads) {
  const auto vectors = static_cast<size_t>(tile_rows_ * part_queries_);
  std::vector<Scratch> scratch(static_cast<size_t>(max_threads));
  const auto carve = [&](std::byte* at) {
    Carver carver(at);
    for (Scratch& s : scratch) {
      s.q = carver.Take<float>(vectors * k_dim_);
      s.kernel = carver.Take<float>(AttentionScratch(vectors, k_dim_, v_dim_));
      s.span_out = carver.Take<float>(vectors * v_dim_);
      s.out = carver.Take<float>(vectors * v_dim_);
      s.span_max = carver.Take<float>(vectors);
      s.span_sum = carver.Take<float>(vectors);
      s.max = carver.Take<float>(vectors);
      s.sum = carver.Take<float>(vectors);
      s.begins = carver.Take<int32_t>(vectors);
      s.ends = carver.Take<int32_t>(vectors);
      s.gathered =
          carver.Take<std::byte>(kSpanKeys * (k_dim_ + v_dim_) * KvElementBytes(layout_.dtype));
      s.gathered_scales = carver.Take<float>(2 * kSpanKeys);
    }
    partials_ = carver.Take<float>(kPartialBytes / sizeof(float));
    return carver.used();
  };
  const size_t bytes = carve(nullptr);
  TRY_ASSIGN(memory_, Mapping::Anonymous(bytes));
  carve(memory_.data());
  scratch_ = std::move(scratch);
  first_token_.reserve(static_cast<size_t>(max_tokens));
  return {};
}

void Attention::Plan(std::span<const BatchSlice> slices, KvArena arena, int threads,
                     std::span<const int64_t> windows) {
  slices_ = slices;
  address_ = KvAddress(layout_, arena);
  first_token_.clear();
  size_t tokens = 0;
  for (const BatchSlice& slice : slices) {
    first_token_.push_back(tokens);
    tokens += slice.tokens.size();
  }
  plans_.resize(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    WindowPlan& plan = plans_[i];
    plan.window = windows[i];
    plan.next_partial = 0;
    plan.tokens.assign(tokens, Token{-1, 0});
    plan.items.clear();
    plan.logit_items.clear();
    PlanWindow(threads, plan);
  }
}

void Attention::PlanWindow(int threads, WindowPlan& plan) const {
  for (size_t i = 0; i < slices_.size(); ++i) {
    const auto slice = static_cast<int32_t>(i);
    const auto rows = static_cast<int32_t>(slices_[i].tokens.size());
    if (rows > 1) {
      PlanChunk(slice, 0, plan.window, plan.items);
      PlanChunk(slice, rows - slices_[i].logit_rows, plan.window, plan.logit_items);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(plan.items.size());
    PlanRow(slice, threads, plan);
    if (slices_[i].logit_rows > 0)
      plan.logit_items.insert(plan.logit_items.end(), plan.items.begin() + first, plan.items.end());
  }
}

void Attention::PlanRow(int32_t slice, int threads, WindowPlan& plan) const {
  const auto index = static_cast<size_t>(slice);
  const int64_t position = slices_[index].start_position;
  const int32_t first_span = SpanOf(FirstKey(position, plan.window));
  const int32_t last_span = SpanOf(position) + 1;
  const int32_t spans = last_span - first_span;
  const int32_t pieces = layout_.kv_heads * parts_;
  const auto capacity = static_cast<int32_t>(kPartialBytes / sizeof(float) / PartialFloats());
  const bool split = spans > 1 &&
                     static_cast<int>(slices_.size()) * pieces < kItemsPerThread * threads &&
                     pieces * spans <= capacity - plan.next_partial;
  for (int32_t piece = 0; piece < pieces; ++piece) {
    const int32_t first_query = piece % parts_ * part_queries_;
    Item item = {slice,       piece / parts_,
                 first_query, std::min(part_queries_, group_ - first_query),
                 0,           1,
                 first_span,  last_span,
                 -1};
    if (!split) {
      plan.items.push_back(item);
      continue;
    }
    for (int32_t span = first_span; span < last_span; ++span) {
      item.first_span = span;
      item.last_span = span + 1;
      item.partial = plan.next_partial + piece * spans + span - first_span;
      plan.items.push_back(item);
    }
  }
  if (split) {
    plan.tokens[first_token_[index]] = {plan.next_partial, spans};
    plan.next_partial += pieces * spans;
  }
}

// The last rows see the most keys, so they come first: the threads then finish together.
void Attention::PlanChunk(int32_t slice, int32_t first_row, int64_t window,
                          std::vector<Item>& items) const {
  const BatchSlice& s = slices_[static_cast<size_t>(slice)];
  for (auto end = static_cast<int32_t>(s.tokens.size()); end > first_row;) {
    const int32_t first = std::max(end - tile_rows_, first_row);
    const int32_t first_span = SpanOf(FirstKey(s.start_position + first, window));
    const int32_t last_span = SpanOf(s.start_position + end - 1) + 1;
    for (int32_t head = 0; head < layout_.kv_heads; ++head)
      for (int32_t query = 0; query < group_; query += part_queries_)
        items.push_back({slice, head, query, std::min(part_queries_, group_ - query), first,
                         end - first, first_span, last_span, -1});
    end = first;
  }
}

void Attention::StartLayer(int layer, bool only_logits, int64_t window) {
  const auto plan = std::ranges::find(plans_, window, &WindowPlan::window);
  CHECK(plan != plans_.end());
  layer_ = layer;
  plan_ = &*plan;
  layer_items_ = only_logits ? &plan->logit_items : &plan->items;
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
  const auto per_row = static_cast<size_t>(item.queries);
  const auto slice = static_cast<size_t>(item.slice);
  const size_t token = first_token_[slice] + static_cast<size_t>(item.first_row);
  const auto head = static_cast<size_t>(item.kv_head * group_ + item.first_query);
  const auto rows = static_cast<size_t>(item.rows);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(scratch.q + r * per_row * k_dim_, queries + (token + r) * q_width_ + head * k_dim_,
                per_row * k_dim_ * sizeof(float));
  const int64_t position = slices_[slice].start_position + item.first_row;
  for (int32_t span = item.first_span; span < item.last_span; ++span) {
    const Range seen = RunSpan(item, scratch, span);
    if (item.partial >= 0) return;
    for (int32_t v = seen.begin; v < seen.end; ++v) {
      const float* from = scratch.span_out + static_cast<size_t>(v) * v_dim_;
      float* to = scratch.out + static_cast<size_t>(v) * v_dim_;
      if (span > SpanOf(FirstKey(position + v / item.queries, plan_->window))) {
        ops_.merge_span(scratch.span_max[v], scratch.span_sum[v], from, v_dim_, scratch.max + v,
                        scratch.sum + v, to);
        continue;
      }
      std::memcpy(to, from, v_dim_ * sizeof(float));
      scratch.max[v] = scratch.span_max[v];
      scratch.sum[v] = scratch.span_sum[v];
    }
  }
  for (size_t v = 0; v < rows * per_row; ++v)
    ops_.scale(1.0F / scratch.sum[v], v_dim_, scratch.out + v * v_dim_);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(out + (token + r) * out_width_ + head * v_dim_, scratch.out + r * per_row * v_dim_,
                per_row * v_dim_ * sizeof(float));
}

Attention::Range Attention::RowsThatSee(const Item& item, const Scratch& scratch,
                                        int64_t first_key) const {
  const int64_t position = slices_[static_cast<size_t>(item.slice)].start_position + item.first_row;
  const int64_t window = plan_->window;
  const auto begin = static_cast<int32_t>(std::max<int64_t>(first_key - position, 0));
  int32_t end = item.rows;
  while (end > begin && FirstKey(position + end - 1, window) >= first_key + kSpanKeys) --end;
  for (int32_t r = begin; r < end; ++r) {
    const int64_t first = std::max<int64_t>(FirstKey(position + r, window) - first_key, 0);
    const int64_t last = std::min<int64_t>(position + r + 1 - first_key, kSpanKeys);
    std::fill_n(scratch.begins + r * item.queries, item.queries, static_cast<int32_t>(first));
    std::fill_n(scratch.ends + r * item.queries, item.queries, static_cast<int32_t>(last));
  }
  return {begin, end};
}

Attention::Range Attention::RunSpan(const Item& item, const Scratch& scratch, int span) {
  const int64_t first_key = static_cast<int64_t>(span) * kSpanKeys;
  const Range rows = RowsThatSee(item, scratch, first_key);
  const Range vectors = {rows.begin * item.queries, rows.end * item.queries};
  const auto first = static_cast<size_t>(vectors.begin);
  Tiles tiles;
  const Range keys = {scratch.begins[vectors.begin], scratch.ends[vectors.end - 1]};
  if (layout_.block_tokens % kTileKeys == 0)
    FillTiles(item, first_key, keys, tiles);
  else
    GatherTiles(item, scratch, first_key, keys, tiles);
  SpanArgs args;
  args.q = scratch.q + first * k_dim_;
  args.vectors = vectors.end - vectors.begin;
  args.k_dim = layout_.k_dim;
  args.v_dim = layout_.v_dim;
  args.begins = scratch.begins + first;
  args.ends = scratch.ends + first;
  args.k_tiles = tiles.k;
  args.v_tiles = tiles.v;
  args.k_stride = tiles.k_stride;
  args.k_scales = tiles.k_scales;
  args.v_scales = tiles.v_scales;
  args.dtype = layout_.dtype;
  args.softcap = softcap_;
  args.scratch = scratch.kernel;
  if (item.partial >= 0) {
    args.out = partials_ + static_cast<size_t>(item.partial) * PartialFloats();
    args.max = args.out + static_cast<size_t>(part_queries_) * v_dim_;
    args.sum = args.max + part_queries_;
  } else {
    args.out = scratch.span_out + first * v_dim_;
    args.max = scratch.span_max + first;
    args.sum = scratch.span_sum + first;
  }
  ops_.attend_span(args);
  return vectors;
}

void Attention::FillTiles(const Item& item, int64_t first_key, Range keys, Tiles& tiles) const {
  const BatchSlice& slice = slices_[static_cast<size_t>(item.slice)];
  const size_t element = KvElementBytes(layout_.dtype);
  const auto block_tokens = static_cast<int64_t>(layout_.block_tokens);
  tiles.k_stride = static_cast<size_t>(block_tokens);
  for (int t = keys.begin / kTileKeys; t * kTileKeys < keys.end; ++t) {
    const int64_t position = first_key + t * kTileKeys;
    const BlockId block = slice.block_table[static_cast<size_t>(position / block_tokens)];
    const auto slot = static_cast<size_t>(position % block_tokens);
    tiles.k[t] = address_.K(block, layer_, item.kv_head) + slot * element;
    tiles.v[t] = address_.V(block, layer_, item.kv_head) + slot * v_dim_ * element;
    if (!layout_.HasScales()) continue;
    tiles.k_scales[t] = address_.KScales(block, layer_, item.kv_head) + slot;
    tiles.v_scales[t] = address_.VScales(block, layer_, item.kv_head) + slot;
  }
}

void Attention::GatherTiles(const Item& item, const Scratch& scratch, int64_t first_key, Range keys,
                            Tiles& tiles) const {
  const BatchSlice& slice = slices_[static_cast<size_t>(item.slice)];
  const size_t element = KvElementBytes(layout_.dtype);
  const auto block_tokens = static_cast<size_t>(layout_.block_tokens);
  const size_t v_bytes = v_dim_ * element;
  std::byte* const all_k = scratch.gathered;
  std::byte* const all_v = all_k + kSpanKeys * k_dim_ * element;
  float* const k_scales = scratch.gathered_scales;
  float* const v_scales = k_scales + kSpanKeys;
  tiles.k_stride = kTileKeys;
  for (size_t t = 0; t < kSpanKeys / kTileKeys; ++t) {
    tiles.k[t] = all_k + t * kTileKeys * k_dim_ * element;
    tiles.v[t] = all_v + t * kTileKeys * v_bytes;
    tiles.k_scales[t] = k_scales + t * kTileKeys;
    tiles.v_scales[t] = v_scales + t * kTileKeys;
  }
  for (auto key = static_cast<size_t>(keys.begin); key < static_cast<size_t>(keys.end); ++key) {
    const size_t position = static_cast<size_t>(first_key) + key;
    const BlockId block = slice.block_table[position / block_tokens];
    const size_t slot = position % block_tokens;
    const std::byte* from = address_.K(block, layer_, item.kv_head) + slot * element;
    std::byte* to = all_k + (key / kTileKeys * k_dim_ * kTileKeys + key % kTileKeys) * element;
    for (size_t d = 0; d < k_dim_; ++d)
      std::memcpy(to + d * kTileKeys * element, from + d * block_tokens * element, element);
    std::memcpy(all_v + key * v_bytes, address_.V(block, layer_, item.kv_head) + slot * v_bytes,
                v_bytes);
    if (!layout_.HasScales()) continue;
    k_scales[key] = address_.KScales(block, layer_, item.kv_head)[slot];
    v_scales[key] = address_.VScales(block, layer_, item.kv_head)[slot];
  }
}

const float* Attention::Row(size_t token, const float* out, float* own) const {
  const Token& t = plan_->tokens[token];
  if (t.partial < 0) return out + token * out_width_;
  const auto spans = static_cast<size_t>(t.spans);
  const auto stride = static_cast<size_t>(part_queries_);
  for (size_t head = 0; head < static_cast<size_t>(layout_.kv_heads * group_); ++head) {
    const size_t part = head % static_cast<size_t>(group_) / stride;
    const size_t v = head % static_cast<size_t>(group_) % stride;
    const size_t piece = head / static_cast<size_t>(group_) * static_cast<size_t>(parts_) + part;
    const float* span =
        partials_ + (static_cast<size_t>(t.partial) + piece * spans) * PartialFloats();
    float* to = own + head * v_dim_;
    std::memcpy(to, span + v * v_dim_, v_dim_ * sizeof(float));
    float max = span[stride * v_dim_ + v];
    float sum = span[stride * (v_dim_ + 1) + v];
    for (size_t i = 1; i < spans; ++i) {
      span += PartialFloats();
      ops_.merge_span(span[stride * v_dim_ + v], span[stride * (v_dim_ + 1) + v], span + v * v_dim_,
                      v_dim_, &max, &sum, to);
    }
    ops_.scale(1.0F / sum, v_dim_, to);
  }
  return own;
}

}  // namespace tandem::model

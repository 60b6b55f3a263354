// Attention of one layer for all rows of a step: paged keys and values, work items for the threads
// of a team, and the merging of spans. The result of a row does not depend on how the work was
// divided (docs/contracts/numerics.md).
#ifndef TANDEM_MODEL_ATTENTION_H_
#define TANDEM_MODEL_ATTENTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/kv_layout.h"
#include "model/memory.h"
#include "model/model.h"
#include "model/ops.h"

namespace tandem::model {

// Query head h reads KV head h / (heads / kv_heads). The widths of keys and values are multiples of
// 16; a layout for this shape has the same kv_heads, k_dim and v_dim.
struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  float softcap = 0;  // scores are softcap * tanh(score / softcap); 0: as they are
};

class Attention {
 public:
  Attention(const AttentionShape& shape, const KvLayout& layout, const Ops& ops);

  // Memory for steps of up to this many tokens and threads.
  Status Reserve(int max_tokens, int max_threads);

  // Divides the work of a step. `windows`: the distinct ones of all layers, as for StartLayer.
  // `slices` and what they refer to must stay until the step is over.
  void Plan(std::span<const BatchSlice> slices, KvArena arena, int threads,
            std::span<const int64_t> windows);
  // Before each layer, on one thread. `only_logits`: only the outputs of tokens whose logits are
  // wanted are computed, as the last layer needs no others. `window`: a query at position p sees
  // the keys p - window + 1 .. p; 0: all up to p. Keys outside are not read, nor their blocks'
  // entries in the table, except that whole tiles of 16 keys are loaded (and may hold NaN).
  void StartLayer(int layer, bool only_logits, int64_t window);
  // On every thread of a region, between barriers: takes items until none is left. `queries` are
  // [tokens][heads * k_dim], turned and scaled; `out` is [tokens][heads * v_dim].
  void Work(int thread, const float* queries, float* out);
  // On any thread after the barrier that follows Work: the output of a token, heads * v_dim
  // floats. Returns `out`'s row where Work has written it, else fills `own` and returns that.
  const float* Row(size_t token, const float* out, float* own) const;

 private:
  // Some query heads of some rows of one slice against spans [first_span, last_span) of one KV
  // head.
  struct Item {
    int32_t slice;
    int32_t kv_head;
    int32_t first_query;  // within the KV head's group
    int32_t queries;
    int32_t first_row;  // within the slice
    int32_t rows;
    int32_t first_span;
    int32_t last_span;
    int32_t partial;  // where the result of a single span goes, or -1: all spans, merged here
  };
  struct Token {
    int32_t partial;  // of the first span of the first KV head's first part, or -1
    int32_t spans;
  };
  // The work of a step for all layers of one window.
  struct WindowPlan {
    int64_t window;
    int32_t next_partial;
    std::vector<Token> tokens;
    std::vector<Item> items;
    std::vector<Item> logit_items;
  };
  // What one thread works in; pointers into memory_.
  struct Scratch {
    float* q;
    float* kernel;
    float* span_out;
    float* out;
    float* span_max;
    float* span_sum;
    float* max;
    float* sum;
    int32_t* begins;
    int32_t* ends;
    std::byte* gathered;
    float* gathered_scales;  // [2][kSpanKeys]
  };
  // Tiles of a span, for SpanArgs.
  struct Tiles {
    const std::byte* k[kSpanKeys / kTileKeys];
    const std::byte* v[kSpanKeys / kTileKeys];
    const float* k_scales[kSpanKeys / kTileKeys];
    const float* v_scales[kSpanKeys / kTileKeys];
    size_t k_stride;
  };
  struct Range {
    int32_t begin;
    int32_t end;
  };

  void PlanWindow(int threads, WindowPlan& plan) const;
  void PlanRow(int32_t slice, int threads, WindowPlan& plan) const;
  // Rows from `first_row` to the end of the slice.
  void PlanChunk(int32_t slice, int32_t first_row, int64_t window, std::vector<Item>& items) const;
  void Run(const Item& item, const Scratch& scratch, const float* queries, float* out);
  // Computes one span for the vectors that see some of it; which these are.
  Range RunSpan(const Item& item, const Scratch& scratch, int span);
  // The item's rows that see keys of the span; fills begins and ends of their vectors.
  Range RowsThatSee(const Item& item, const Scratch& scratch, int64_t first_key) const;
  // Points at the tiles that hold keys [begin, end) of the span that starts at first_key.
  void FillTiles(const Item& item, int64_t first_key, Range keys, Tiles& tiles) const;
  // The same for blocks in which a tile does not lie whole: copies the keys and values.
  void GatherTiles(const Item& item, const Scratch& scratch, int64_t first_key, Range keys,
                   Tiles& tiles) const;
  size_t PartialFloats() const { return static_cast<size_t>(part_queries_) * (v_dim_ + 2); }

  const Ops& ops_;
  KvLayout layout_;
  float softcap_;
  size_t k_dim_;
  size_t v_dim_;
  size_t q_width_;    // heads * k_dim
  size_t out_width_;  // heads * v_dim
  int group_;         // query heads of a KV head
  int parts_;         // a large group is divided
  int part_queries_;  // query heads of a part; the last may have fewer
  int tile_rows_;     // query rows of an item
  Mapping memory_;
  std::vector<Scratch> scratch_;
  float* partials_ = nullptr;

  std::span<const BatchSlice> slices_;
  KvAddress address_;
  std::vector<size_t> first_token_;  // of each slice
  std::vector<WindowPlan> plans_;
  const WindowPlan* plan_ = nullptr;                // of the layer in progress
  const std::vector<Item>* layer_items_ = nullptr;  // of plan_
  int layer_ = 0;
  std::atomic<size_t> next_item_{0};
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ATTENTION_H_

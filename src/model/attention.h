// Attention of one layer for all rows of a step: paged keys and values, work items for the threads
// of a team, and the merging of spans. The result of a row does not depend on how the work was
// divided.
#ifndef TANDEM_MODEL_ATTENTION_H_
#define TANDEM_MODEL_ATTENTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/memory.h"
#include "model/model.h"
#include "model/ops.h"

namespace tandem::model {

// Addresses inside the arena (docs/contracts/kv-layout.md).
class KvAddress {
 public:
  KvAddress() = default;
  KvAddress(const KvLayout& layout, KvArena arena);

  // The K and V parts of one head in one block.
  std::byte* K(BlockId block, int layer, int kv_head) const {
    return Part(block, layer, 0, kv_head);
  }
  std::byte* V(BlockId block, int layer, int kv_head) const {
    return Part(block, layer, 1, kv_head);
  }

 private:
  std::byte* Part(BlockId block, int layer, int which, int kv_head) const {
    return base_ + static_cast<size_t>(block) * block_bytes_ +
           (static_cast<size_t>(layer * 2 + which) * kv_heads_ + static_cast<size_t>(kv_head)) *
               head_bytes_;
  }

  std::byte* base_ = nullptr;
  size_t block_bytes_ = 0;
  size_t head_bytes_ = 0;
  size_t kv_heads_ = 0;
};

class Attention {
 public:
  Attention(const ModelConfig& config, const KvLayout& layout, const Ops& ops);

  // Memory for steps of up to this many tokens and threads.
  Status Reserve(int max_tokens, int max_threads);

  // Divides the work of a step. `slices` and what they refer to must stay until the step is over.
  void Plan(std::span<const BatchSlice> slices, KvArena arena, int threads);
  // Before each layer, on one thread. `only_logits`: only the outputs of tokens whose logits are
  // wanted are computed, as the last layer needs no others.
  void StartLayer(int layer, bool only_logits);
  // On every thread of a region, between barriers: takes items until none is left. `queries` are
  // [tokens][heads * head_dim], turned and scaled.
  void Work(int thread, const float* queries, float* out);
  // On any thread after the barrier that follows Work: the output of a token, heads * head_dim
  // floats. Returns `out`'s row where Work has written it, else fills `own` and returns that.
  const float* Row(size_t token, const float* out, float* own) const;

 private:
  // Query rows of one slice against spans [first_span, last_span) for one KV head.
  struct Item {
    int32_t slice;
    int32_t kv_head;
    int32_t first_row;  // within the slice
    int32_t rows;
    int32_t first_span;
    int32_t last_span;
    int32_t partial;  // where the result of a single span goes, or -1: all spans, merged here
  };
  struct Token {
    int32_t partial;  // of the first KV head's first span, or -1
    int32_t spans;
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
    int32_t* limits;
    std::byte* gathered;
  };

  void PlanRow(int32_t slice, int threads, int32_t* next_partial);
  // Rows from `first_row` to the end of the slice.
  void PlanChunk(int32_t slice, int32_t first_row, std::vector<Item>& items) const;
  void Run(const Item& item, const Scratch& scratch, const float* queries, float* out);
  // Computes one span for all vectors that see some of it; the number of leading rows that do not.
  int RunSpan(const Item& item, const Scratch& scratch, int span);
  // Points at the tiles of `keys` keys from first_key on; the distance between dimensions of K.
  size_t FillTiles(const BatchSlice& slice, int kv_head, int64_t first_key, int keys,
                   std::byte* gathered, const std::byte** k_tiles, const std::byte** v_tiles) const;
  void Gather(const BatchSlice& slice, int kv_head, int64_t position, int keys, std::byte* k,
              std::byte* v) const;
  size_t PartialFloats() const { return static_cast<size_t>(group_) * (head_dim_ + 2); }

  const Ops& ops_;
  KvLayout layout_;
  size_t head_dim_;
  size_t width_;   // heads * head_dim
  int group_;      // query heads of a KV head
  int tile_rows_;  // query rows of an item
  Mapping memory_;
  std::vector<Scratch> scratch_;
  float* partials_ = nullptr;

  std::span<const BatchSlice> slices_;
  KvAddress address_;
  std::vector<size_t> first_token_;  // of each slice
  std::vector<Token> tokens_;
  std::vector<Item> items_;
  std::vector<Item> logit_items_;
  const std::vector<Item>* layer_items_ = &items_;
  int layer_ = 0;
  std::atomic<size_t> next_item_{0};
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_ATTENTION_H_

// The compute kernels of one instruction-set level, behind function pointers. Every level gives the
// same bits (docs/contracts/numerics.md); one is chosen when a model is loaded.
#ifndef TANDEM_MODEL_OPS_H_
#define TANDEM_MODEL_OPS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "model/kv_layout.h"

namespace tandem::model {

// Forms of weights that a matrix kernel reads. The order is that of Ops::panel and part of the
// packed file format.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8,  // E4M3 with a float32 scale for every 128 inputs
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};
inline constexpr int kWeightFormats = 14;

// Outputs in one packed panel (pack.h), and inputs in one quantised block.
inline constexpr int kPanel = 32;
inline constexpr int kBlock = 32;
// Inputs that share a scale in kF8.
inline constexpr int kFp8Block = 128;
// The most rows any level's panel kernel takes at once.
inline constexpr int kMaxTileRows = 8;
// Keys in a tile and in a span of attention.
inline constexpr int kTileKeys = 16;
inline constexpr int kSpanKeys = 256;

// Activation rows, both forms; which one is filled depends on the weights they meet. Row r starts
// r * stride elements further (values, q) or r * blocks (per-block numbers).
struct RowsView {
  const float* values = nullptr;
  const int8_t* q = nullptr;
  const float* scale = nullptr;        // d
  const float* scaled_sum = nullptr;   // d * sum of q
  const int32_t* sum = nullptr;        // sum of q
  const int32_t* half_sums = nullptr;  // sums of both halves, as two int16: first half low
  size_t stride = 0;
  size_t blocks = 0;
};

// out[r * out_stride + o] for the rows of a tile and the 32 outputs of a panel. `blocks`: K / 32.
using PanelFn = void (*)(const std::byte* panel, size_t blocks, const RowsView& x, float* out,
                         size_t out_stride);

// Where one row is quantised to: K int8 and K / 32 of each number, as in RowsView.
struct QuantizedRow {
  int8_t* q;
  float* scale;
  float* scaled_sum;
  int32_t* sum;
  int32_t* half_sums;
};

// Query vectors against the keys of one span. `vectors` are grouped by row, the rows ascending, so
// `begins` and `ends` never fall. A vector sees the keys [begin, end) of the span, at least one;
// keys that no vector sees, and the slots around them, may hold anything.
struct SpanArgs {
  const float* q = nullptr;  // [vectors][k_dim], already scaled
  int vectors = 0;
  int k_dim = 0;  // multiples of 16
  int v_dim = 0;
  const int32_t* begins = nullptr;  // [vectors]
  const int32_t* ends = nullptr;    // [vectors]
  // Per 16 keys of the span, from the first to the last that is seen; others are not read.
  const std::byte* const* k_tiles = nullptr;  // [k_dim][k_stride] in the KV dtype
  const std::byte* const* v_tiles = nullptr;  // [16][v_dim]
  size_t k_stride = 0;                        // elements between dimensions
  const float* const* k_scales = nullptr;     // [16], only for a dtype that has scales
  const float* const* v_scales = nullptr;
  KvDtype dtype = KvDtype::kFloat16;
  float softcap = 0;         // scores are softcap * tanh(score / softcap); 0: as they are
  float* scratch = nullptr;  // AttentionScratch(vectors, k_dim, v_dim) floats
  float* max = nullptr;      // out [vectors]
  float* sum = nullptr;      // out [vectors]
  float* out = nullptr;      // out [vectors][v_dim], not divided by sum
};
constexpr size_t AttentionScratch(size_t vectors, size_t k_dim, size_t v_dim) {
  return vectors * kSpanKeys + kTileKeys * (2 * k_dim > v_dim ? 2 * k_dim : v_dim);
}

struct Ops {
  std::string_view name;
  int max_rows;                                 // the most rows of a tile, at most kMaxTileRows
  PanelFn panel[kWeightFormats][kMaxTileRows];  // [format][rows - 1]

  // Row operations. n is a multiple of 16; buffers may be equal but must not otherwise overlap.
  void (*rms_norm)(const float* x, const float* weight, size_t n, float epsilon, float* y);
  void (*quantize)(const float* x, size_t n, const QuantizedRow& row);
  void (*swiglu)(const float* gate, const float* up, size_t n, float* y);
  void (*geglu)(const float* gate, const float* up, size_t n, float* y);  // tanh form of GELU
  void (*add)(const float* x, size_t n, float* y);                        // y += x
  void (*add_scaled)(float factor, const float* x, size_t n, float* y);   // y += factor * x
  void (*scale)(float factor, size_t n, float* y);                        // y *= factor
  // Interleaved pairs; cosine and signed sine (-s, s) are given for every element.
  void (*rope)(const float* cosine, const float* sine, size_t n, float* y);
  void (*narrow)(const float* x, size_t n, uint16_t* y);           // to half, clamped to +-65504
  void (*narrow_bfloat16)(const float* x, size_t n, uint16_t* y);  // clamped to finite numbers
  // q[i * stride] = x[i] in steps of max |x| / 127, which is returned.
  float (*quantize_head)(const float* x, size_t n, int8_t* q, size_t stride);
  void (*soft_cap)(float cap, size_t n, float* y);  // y = cap * tanh(y / cap)

  void (*attend_span)(const SpanArgs& args);
  // Adds a span's (max, sum, out) to running ones of the same vector.
  void (*merge_span)(float span_max, float span_sum, const float* span_out, size_t v_dim,
                     float* max, float* sum, float* out);
};

// "" chooses the best level of this CPU; a name forces one, or fails when the CPU lacks it.
Result<const Ops*> ChooseOps(std::string_view name);
// The levels that this CPU can run, plain first.
struct OpsList {
  const Ops* levels[3];
  int count;
};
OpsList AvailableOps();

// One per translation unit; use ChooseOps, which checks the CPU.
const Ops& PlainOps();
#if defined(__x86_64__)
const Ops& Avx2Ops();
const Ops& Avx512Ops();
#endif

}  // namespace tandem::model

#endif  // TANDEM_MODEL_OPS_H_

// Builds the ops table of a SIMD level from the kernel templates.
#ifndef TANDEM_MODEL_KERNELS_TABLE_H_
#define TANDEM_MODEL_KERNELS_TABLE_H_

#include "model/kernels_attention.h"
#include "model/kernels_panel.h"
#include "model/kernels_rows.h"
#include "model/ops.h"

namespace tandem::model {

template <class S, int R>
constexpr void SetRows(Ops& ops) {
  if constexpr (R <= S::kMaxRows) {
    const auto panel = [&ops](WeightFormat format) -> PanelFn& {
      return ops.panel[static_cast<int>(format)][R - 1];
    };
    panel(WeightFormat::kF32) = FloatPanel<S, F32<S>, R>;
    panel(WeightFormat::kF16) = FloatPanel<S, F16<S>, R>;
    panel(WeightFormat::kBF16) = FloatPanel<S, BF16<S>, R>;
    panel(WeightFormat::kF8) = FloatPanel<S, F8<S>, R>;
    panel(WeightFormat::kQ4_0) = QuantizedPanel<S, Q4_0<S>, R>;
    panel(WeightFormat::kQ4_1) = QuantizedPanel<S, Q4_1<S>, R>;
    panel(WeightFormat::kQ5_0) = QuantizedPanel<S, Q5_0<S>, R>;
    panel(WeightFormat::kQ5_1) = QuantizedPanel<S, Q5_1<S>, R>;
    panel(WeightFormat::kQ8_0) = QuantizedPanel<S, Q8_0<S>, R>;
    panel(WeightFormat::kQ2_K) = QuantizedPanel<S, Q2_K<S>, R>;
    panel(WeightFormat::kQ3_K) = QuantizedPanel<S, Q3_K<S>, R>;
    panel(WeightFormat::kQ4_K) = QuantizedPanel<S, Q4_K<S>, R>;
    panel(WeightFormat::kQ5_K) = QuantizedPanel<S, Q5_K<S>, R>;
    panel(WeightFormat::kQ6_K) = QuantizedPanel<S, Q6_K<S>, R>;
    SetRows<S, R + 1>(ops);
  }
}

template <class S>
constexpr Ops MakeOps(std::string_view name) {
  static_assert(S::kMaxRows <= kMaxTileRows);
  Ops ops{};
  ops.name = name;
  ops.max_rows = S::kMaxRows;
  SetRows<S, 1>(ops);
  ops.rms_norm = RmsNorm<S>;
  ops.quantize = Quantize<S>;
  ops.swiglu = SwiGlu<S>;
  ops.geglu = GeGlu<S>;
  ops.add = AddTo<S>;
  ops.add_scaled = AddScaled<S>;
  ops.scale = Scale<S>;
  ops.rope = Rope<S>;
  ops.narrow = Narrow<S>;
  ops.narrow_bfloat16 = NarrowBfloat16<S>;
  ops.quantize_head = QuantizeHead<S>;
  ops.soft_cap = SoftCap<S>;
  ops.attend_span = AttendSpan<S>;
  ops.merge_span = MergeSpan<S>;
  return ops;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_KERNELS_TABLE_H_

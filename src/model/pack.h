// Weight matrices in the form that the panel kernels read. A panel holds 32 outputs over all of K,
// so one thread reads one sequential stream; it has the bytes of the file in another order, the
// same on every instruction-set path. Outputs beyond the matrix are zero.
//
// Panel of 32 outputs o, K in order:
//   F32, F16, BF16   per k: 32 elements
//   Q4_0, Q4_1, Q8_0 per 32 inputs: quants, then 32 fp16 scales, then for Q4_1 32 fp16 minima
//     Q4: byte [i / 4 % 4][o][i % 4] has input i (0..15) in its low nibble, input i + 16 in its
//     high one Q8: byte [i / 4][o][i % 4]
//   Q6_K             per 256 inputs: 32 fp16 scales; then eight times, per 32 inputs: nibbles as in
//   Q4
//     (512 bytes), high bits (256 bytes: byte [i / 4 % 2][o][i % 4], two bits at 2 * (i / 8)), 64
//     int8 scales [half][o]
#ifndef TANDEM_MODEL_PACK_H_
#define TANDEM_MODEL_PACK_H_

#include <cstddef>
#include <span>

#include "model/gguf.h"
#include "model/ops.h"

namespace tandem::model {

// Part of the name of a packed file: changes whenever the layout above or the file's does.
inline constexpr int kPackVersion = 2;

// A matrix of a packed image. Panel p starts at image + offset + p * panel_stride; matrices that
// are used together interleave their panels, hence a stride of its own. Not owned.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  size_t outputs = 0;
  size_t inputs = 0;  // a multiple of 32
  const std::byte* image = nullptr;
  size_t offset = 0;
  size_t panel_stride = 0;

  size_t panels() const { return (outputs + kPanel - 1) / kPanel; }
  size_t blocks() const { return inputs / kBlock; }
  bool quantized() const { return format >= WeightFormat::kQ4_0; }
  const std::byte* panel(size_t p) const { return image + offset + p * panel_stride; }
};

WeightFormat FormatOf(TensorType type);
// Bytes of one panel; a multiple of 64.
size_t PanelBytes(WeightFormat format, size_t inputs);
// Writes panel p of a {inputs, outputs} tensor to `out` (PanelBytes).
void PackPanel(const Tensor& tensor, size_t p, std::byte* out);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_PACK_H_

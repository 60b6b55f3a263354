// Weight matrices in the form that the panel kernels read. A panel holds 32 outputs over all of K,
// so one thread reads one sequential stream; it has the bytes of the file in another order, the
// same on every instruction-set path. Outputs beyond the matrix are zero.
//
// Panel of 32 outputs o, K in order. An array has four bytes for every output: [o][4].
//   F32, F16, BF16  per input: 32 elements
//   F8              per 128 inputs (fewer at the end): 32 float32 scales times 256, then per input
//                   32 bytes (E4M3)
//   quantised       per 32 inputs: the quants, as many arrays as they have bits (quant_layout.h),
//                   then what the table says. A quad is inputs 4i to 4i + 3 or, where halves of 16
//                   have factors, inputs 2i, 2i + 1, 16 + 2i and 17 + 2i.
//
//   type  bits        after the quants of 32 inputs         in front of every 256 inputs
//   Q4_0  4           32 fp16 scales
//   Q4_1  4           32 fp16 scales, 32 fp16 minima
//   Q5_0  5           as Q4_0
//   Q5_1  5           as Q4_1
//   Q8_0  8           as Q4_0
//   Q2_K  2           [o][half] c, m in low, high nibble    32 fp16 scales, 32 fp16 -minima
//   Q3_K  3           [o][half] int8 c                      32 fp16 scales
//   Q4_K  4           32 bytes c, 32 bytes m                as Q2_K
//   Q5_K  5           as Q4_K                               as Q2_K
//   Q6_K  6           as Q3_K                               as Q3_K
//
// c and m are the factors of a group's scale and minimum (quant_blocks.h); halves are 16 inputs.
// That is the file's size, but for 8 instead of 6 bits a factor in Q3_K, Q4_K and Q5_K (4 bytes
// in 110, 144 and 176).
#ifndef TANDEM_MODEL_PACK_H_
#define TANDEM_MODEL_PACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/ops.h"
#include "model/tensor.h"

namespace tandem::model {

// What the values of an FP8 tensor are multiplied by: one number for each `rows` rows and 128
// inputs (DeepSeek-V3's blocks), or for each row (compressed-tensors' channels).
struct Fp8Scales {
  std::vector<float> values;  // [groups of rows][columns]
  size_t rows = 1;
  size_t columns = 1;
  float At(size_t row, size_t block) const {
    return values[row / rows * columns + (columns == 1 ? 0 : block)];
  }
};

// Where the rows of a packed matrix come from, in the order of its outputs.
struct PackSource {
  const Tensor* tensor = nullptr;
  WeightFormat format = WeightFormat::kF32;  // the tensor's own, or kF32 whatever that is
  size_t inputs = 0;  // of the packed matrix: the tensor's, for floats rounded up to whole blocks
  size_t outputs = 0;
  int64_t first_row = 0;           // the tensor's row of output 0; the next ones follow
  std::vector<int64_t> rows = {};  // if not empty: the tensor's row of each output, -1: zeros
  // If not 0: outputs are the tensor's columns, inputs so many of its rows from first_row on, and
  // the format is kF32.
  size_t transposed_rows = 0;
  std::shared_ptr<const Fp8Scales> scales = nullptr;  // of an FP8 tensor
};

// Part of the name of a packed file: changes whenever the layout above or the file's does.
inline constexpr int kPackVersion = 4;

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
// All rows of a tensor as they are.
PackSource WholeTensor(const Tensor& tensor);
// Writes panel p to `out` (PanelBytes).
void PackPanel(const PackSource& source, size_t p, std::byte* out);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_PACK_H_

// Writes the 32 rows of a panel in the layout of pack.h, wherever the rows come from.
#ifndef TANDEM_MODEL_PACK_ROWS_H_
#define TANDEM_MODEL_PACK_ROWS_H_

#include <cstddef>
#include <span>

#include "base/function_ref.h"
#include "model/ops.h"
#include "model/tensor_types.h"

namespace tandem::model {

// The rows of a panel, which need no alignment; rows beyond the matrix are null and become zeros.
struct PanelRows {
  const std::byte* row[kPanel];
};

// `inputs` consecutive values of a GGUF tensor type in each row, a multiple of the type's block.
// `out` holds PanelBytes(FormatOf(type), inputs), all of which are written.
void PackRows(TensorType type, const PanelRows& rows, size_t inputs, std::byte* out);

// Rows of `inputs` bytes (a multiple of 32) in E4M3, without infinities: the format of "OCP 8-bit
// Floating Point Specification (OFP8)", 1.0. scale(o, block) is what the inputs of block 128 of
// row o are multiplied by; it is called for rows that are not null. `out` holds
// PanelBytes(kF8, inputs). Codes that mean NaN must have been refused: they would become 480.
void PackFp8Panel(const PanelRows& rows, size_t inputs, FunctionRef<float(size_t, size_t)> scale,
                  std::byte* out);
// Whether E4M3 bytes hold a NaN (0x7F or 0xFF).
bool HasFp8Nan(std::span<const std::byte> bytes);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_PACK_ROWS_H_

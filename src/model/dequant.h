// Plain scalar dequantisation: the definition of what the bytes of each tensor type mean. Used for
// embedding rows, norms and as the reference in tests; the matrix kernels have their own forms.
#ifndef TANDEM_MODEL_DEQUANT_H_
#define TANDEM_MODEL_DEQUANT_H_

#include <cstddef>
#include <span>

#include "model/tensor_types.h"

namespace tandem::model {

// Writes values.size() values, a multiple of the type's block, from RowBytes(type, values.size())
// bytes at `row`, which need no alignment.
void DequantizeRow(TensorType type, const std::byte* row, std::span<float> values);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_DEQUANT_H_

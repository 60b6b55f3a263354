// The blocks of GGUF's quantised tensor types, taken apart into integers: what dequantisation and
// packing share. Layouts follow the format's reference implementation, ggml.
//
// A value is scale * c * (q - offset) - minimum * m, where c and m belong to its group; types
// without groups have c = 1, and one group for the block whose minimum, if any, is added
// (m = -1).
#ifndef TANDEM_MODEL_QUANT_BLOCKS_H_
#define TANDEM_MODEL_QUANT_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "model/tensor_types.h"

namespace tandem::model {

struct QuantBlock {
  uint8_t quants[256];  // as stored; those of Q8_0 are signed bytes
  int8_t scales[16];    // c of each group
  uint8_t minima[16];   // m of each group, only of types that have `group_minima`
  uint16_t scale;       // halves
  uint16_t minimum;
};

struct QuantTraits {
  int group;          // values that share c and m; the block where there are no groups
  int offset;         // what is taken off every quant
  bool minimum;       // a minimum for the block is added
  bool group_minima;  // minima of groups are taken off
};

// Only for quantised types.
QuantTraits TraitsOf(TensorType type);
// Reads one block (TensorTypeInfo::block_bytes), which needs no alignment.
void ReadQuantBlock(TensorType type, const std::byte* bytes, QuantBlock& block);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_QUANT_BLOCKS_H_

// Tensor types of GGUF files that this build can compute with, and the names of those that it
// cannot.
#ifndef TANDEM_MODEL_TENSOR_TYPES_H_
#define TANDEM_MODEL_TENSOR_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::model {

// The values are those of the file format.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
  // Of safetensors only, outside of the numbers that GGUF can hold.
  kF8_E4M3 = 0xFFFFFFFF,
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;
  int block_elements;  // a row holds a multiple of this
  int block_bytes;
};

// Of a GGUF file; null when this build cannot compute with the type.
const TensorTypeInfo* FindTensorType(uint32_t id);
// For types that came out of a parsed file, which are always known.
const TensorTypeInfo& InfoOf(TensorType type);
// "IQ4_NL" for a known but unsupported type, "type 77" for one never heard of.
std::string TensorTypeName(uint32_t id);
// "F32, F16, ...": for messages.
std::string SupportedTensorTypes();
// Bytes of `elements` consecutive values; elements is a multiple of the block.
size_t RowBytes(TensorType type, int64_t elements);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TENSOR_TYPES_H_

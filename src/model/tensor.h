// A tensor of a model file: what it is called and where its bytes lie. The bytes belong to the
// file.
#ifndef TANDEM_MODEL_TENSOR_H_
#define TANDEM_MODEL_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/tensor_types.h"

namespace tandem::model {

struct Tensor {
  std::string_view name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> dims;         // fastest first: a matrix is {inputs, outputs}
  std::span<const std::byte> bytes;  // exactly the tensor's data

  int64_t Inputs() const { return dims[0]; }
  // All further dimensions together: the number of rows.
  int64_t Rows() const;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TENSOR_H_

// Reads safetensors files: eight bytes of header length, a JSON header that names every tensor with
// its type, shape and range of bytes, then the data
// (https://github.com/huggingface/safetensors#format). The file is not trusted: every number is
// checked before use, and an error names the tensor.
#ifndef TANDEM_MODEL_SAFETENSORS_H_
#define TANDEM_MODEL_SAFETENSORS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace tandem::model {

inline constexpr size_t kMaxSafetensorsHeader = size_t{100} << 20;

// A parsed file whose bytes belong to somebody else and must outlive the view. Tensors of types
// that this build cannot compute with are errors only when they are asked for.
class SafetensorsView {
 public:
  // `label` names the bytes in errors: a path.
  static Result<SafetensorsView> Parse(std::span<const std::byte> file, std::string label);

  const std::string& label() const { return label_; }
  // All that can be computed with; dimensions are fastest first, as in GGUF.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  struct Unsupported {
    std::string name;
    std::string type;
  };
  const std::vector<Unsupported>& unsupported() const { return unsupported_; }

 private:
  SafetensorsView() = default;
  std::string label_;
  std::vector<std::string> names_;  // what the tensors' names refer to
  std::vector<Tensor> tensors_;
  std::vector<Unsupported> unsupported_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SAFETENSORS_H_

// Finds the tensors of a checkpoint, checks their shapes and reads vectors.
#ifndef TANDEM_MODEL_TENSOR_FINDER_H_
#define TANDEM_MODEL_TENSOR_FINDER_H_

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/pack.h"
#include "model/weights.h"

namespace tandem::model {

// Where each of `heads` heads' dimensions lies in the packed rows: `padded` places a head, from
// `dim` rows of the tensor, the next head `stride` rows further. The first `turned` dimensions come
// from halves instead of pairs if `half_split`.
struct HeadMap {
  int64_t first = 0;
  size_t heads = 1;
  size_t dim = 0;
  size_t padded = 0;
  size_t stride = 0;
  size_t turned = 0;
  bool half_split = false;

  // The tensor's row of each place, -1: none.
  std::vector<int64_t> Rows() const;
};

class TensorFinder {
 public:
  explicit TensorFinder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool Has(const std::string& name) const { return checkpoint_.Find(name) != nullptr; }
  // A tensor of this shape, or an error.
  Result<const Tensor*> Find(const std::string& name, int64_t inputs, int64_t rows);
  // Its rows to pack, with the scales of an FP8 tensor.
  Result<PackSource> Matrix(const std::string& name, int64_t inputs, int64_t rows);
  // A vector of this many values.
  Result<std::vector<float>> Vector(const std::string& name, int64_t values);
  // Padded with zeros; empty where the checkpoint has no such tensor.
  Result<std::vector<float>> Bias(const std::string& name, int64_t values, size_t padded);
  // By the places of `map`, which go over `values` values of the tensor.
  Result<std::vector<float>> Bias(const std::string& name, int64_t values, const HeadMap& map);
  Result<NormWeights> Norm(const std::string& name, int64_t values, size_t padded);
  Result<NormWeights> Norm(const std::string& name, int64_t values, const HeadMap& map);
  Status RefuseOthers() const { return checkpoint_.RefuseOthers(used_); }

 private:
  Result<std::shared_ptr<const Fp8Scales>> Scales(const std::string& name, int64_t inputs,
                                                  int64_t rows);

  const Checkpoint& checkpoint_;
  std::unordered_set<const Tensor*> used_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TENSOR_FINDER_H_

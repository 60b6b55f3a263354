#include "model/tensor_finder.h"

#include <cmath>

#include "model/dequant.h"

namespace tandem::model {
namespace {

std::vector<float> Placed(const std::vector<float>& values, const HeadMap& map) {
  std::vector<float> placed;
  for (const int64_t row : map.Rows())
    placed.push_back(row < 0 ? 0.0F : values[static_cast<size_t>(row)]);
  return placed;
}

}  // namespace

std::vector<int64_t> HeadMap::Rows() const {
  std::vector<int64_t> rows(heads * padded, -1);
  for (size_t head = 0; head < heads; ++head)
    for (size_t d = 0; d < dim; ++d) {
      const size_t from = half_split && d < turned ? d / 2 + d % 2 * (turned / 2) : d;
      rows[head * padded + d] = first + static_cast<int64_t>(head * stride + from);
    }
  return rows;
}

Result<const Tensor*> TensorFinder::Find(const std::string& name, int64_t inputs, int64_t rows) {
  const Tensor* tensor = checkpoint_.Find(name);
  if (tensor == nullptr) return std::unexpected(checkpoint_.WhyMissing(name));
  if (tensor->Inputs() != inputs || tensor->Rows() != rows)
    return Err(Code::kCorrupt, "{}: tensor {} is {} x {}, expected {} x {}", checkpoint_.label(),
               name, tensor->Inputs(), tensor->Rows(), inputs, rows);
  used_.insert(tensor);
  return tensor;
}

Result<PackSource> TensorFinder::Matrix(const std::string& name, int64_t inputs, int64_t rows) {
  TRY_ASSIGN(const Tensor* tensor, Find(name, inputs, rows));
  PackSource source = WholeTensor(*tensor);
  if (tensor->type != TensorType::kF8_E4M3) return source;
  if (inputs % kBlock != 0)
    return Err(Code::kUnsupported, "{}: tensor {} has rows of {} FP8 values, not of whole {}s",
               checkpoint_.label(), name, inputs, kBlock);
  TRY_ASSIGN(source.scales, Scales(name, inputs, rows));
  return source;
}

// DeepSeek calls them weight_scale_inv, compressed-tensors weight_scale; both are factors.
Result<std::shared_ptr<const Fp8Scales>> TensorFinder::Scales(const std::string& name,
                                                              int64_t inputs, int64_t rows) {
  const std::string scales = name + (Has(name + "_scale_inv") ? "_scale_inv" : "_scale");
  const Tensor* tensor = checkpoint_.Find(scales);
  if (tensor == nullptr) return std::unexpected(checkpoint_.WhyMissing(scales));
  used_.insert(tensor);
  auto result = std::make_shared<Fp8Scales>();
  const int64_t blocks = (inputs + kFp8Block - 1) / kFp8Block;
  const int64_t row_blocks = (rows + kFp8Block - 1) / kFp8Block;
  const int64_t all = tensor->Inputs() * tensor->Rows();
  if (all == 1) {
    result->rows = static_cast<size_t>(rows);
  } else if (all == rows) {
    result->rows = 1;
  } else if (tensor->Inputs() == blocks && tensor->Rows() == row_blocks) {
    result->rows = kFp8Block;
    result->columns = static_cast<size_t>(blocks);
  } else {
    return Err(Code::kUnsupported,
               "{}: tensor {} is {} x {}: neither one number, nor one for each of {} rows, nor for "
               "blocks of 128 x 128",
               checkpoint_.label(), scales, tensor->Inputs(), tensor->Rows(), rows);
  }
  result->values.resize(static_cast<size_t>(all));
  const auto width = static_cast<size_t>(tensor->Inputs());
  for (size_t row = 0; row < static_cast<size_t>(tensor->Rows()); ++row)
    DequantizeRow(tensor->type,
                  tensor->bytes.data() + row * RowBytes(tensor->type, tensor->Inputs()),
                  {result->values.data() + row * width, width});
  for (const float value : result->values)
    if (!std::isfinite(value * 256.0F))
      return Err(Code::kCorrupt, "{}: tensor {} holds {}", checkpoint_.label(), scales, value);
  return result;
}

Result<std::vector<float>> TensorFinder::Vector(const std::string& name, int64_t values) {
  TRY_ASSIGN(const Tensor* tensor, Find(name, values, 1));
  std::vector<float> result(static_cast<size_t>(values));
  DequantizeRow(tensor->type, tensor->bytes.data(), result);
  return result;
}

Result<std::vector<float>> TensorFinder::Bias(const std::string& name, int64_t values,
                                              size_t padded) {
  if (!Has(name)) return std::vector<float>();
  TRY_ASSIGN(std::vector<float> bias, Vector(name, values));
  bias.resize(padded);
  return bias;
}

Result<std::vector<float>> TensorFinder::Bias(const std::string& name, int64_t values,
                                              const HeadMap& map) {
  if (!Has(name)) return std::vector<float>();
  TRY_ASSIGN(const std::vector<float> bias, Vector(name, values));
  return Placed(bias, map);
}

Result<NormWeights> TensorFinder::Norm(const std::string& name, int64_t values, size_t padded) {
  const auto count = static_cast<size_t>(values);
  return Norm(name, values, {.dim = count, .padded = padded, .stride = count});
}

// With n values of N places, zeros besides, the mean square over N is n / N of the one over n.
Result<NormWeights> TensorFinder::Norm(const std::string& name, int64_t values,
                                       const HeadMap& map) {
  const ModelConfig& config = checkpoint_.config();
  TRY_ASSIGN(std::vector<float> weight, Vector(name, values));
  if (config.stored.norms_minus_one)
    for (float& w : weight) w += 1.0F;
  NormWeights norm{Placed(weight, map), config.rms_epsilon};
  const double share = static_cast<double>(values) / static_cast<double>(norm.weight.size());
  if (share == 1) return norm;
  norm.epsilon = static_cast<float>(double{config.rms_epsilon} * share);
  for (float& w : norm.weight) w = static_cast<float>(double{w} * std::sqrt(share));
  return norm;
}

}  // namespace tandem::model

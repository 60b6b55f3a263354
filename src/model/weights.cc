#include "model/weights.h"

#include <string>

#include "base/check.h"
#include "model/dequant.h"

namespace tandem::model {
namespace {

class Layout {
 public:
  explicit Layout(const GgufView& file) : file_(file) {}

  std::vector<float> Vector(const std::string& name) const {
    const Tensor& tensor = Get(name);
    std::vector<float> values(static_cast<size_t>(tensor.Inputs()));
    DequantizeRow(tensor.type, tensor.bytes.data(), values);
    return values;
  }

  PackedMatrix Matrix(const std::string& name) {
    PackedMatrix matrix = Describe(Get(name));
    matrix.panel_stride = PanelBytes(matrix.format, matrix.inputs);
    Place(Get(name), matrix, 0);
    plan_.bytes += matrix.panels() * matrix.panel_stride;
    return matrix;
  }

  void Interleaved(const std::string& first_name, const std::string& second_name,
                   PackedMatrix& first, PackedMatrix& second) {
    first = Describe(Get(first_name));
    second = Describe(Get(second_name));
    const size_t first_bytes = PanelBytes(first.format, first.inputs);
    const size_t stride = first_bytes + PanelBytes(second.format, second.inputs);
    first.panel_stride = second.panel_stride = stride;
    Place(Get(first_name), first, 0);
    Place(Get(second_name), second, first_bytes);
    plan_.bytes += first.panels() * stride;
  }

  PackPlan TakePlan() { return std::move(plan_); }

 private:
  const Tensor& Get(const std::string& name) const {
    const Tensor* tensor = file_.FindTensor(name);
    CHECK(tensor != nullptr);
    return *tensor;
  }

  static PackedMatrix Describe(const Tensor& tensor) {
    PackedMatrix matrix;
    matrix.format = FormatOf(tensor.type);
    matrix.outputs = static_cast<size_t>(tensor.Rows());
    matrix.inputs = static_cast<size_t>(tensor.Inputs());
    return matrix;
  }

  void Place(const Tensor& tensor, PackedMatrix& matrix, size_t shift) {
    const size_t offset = plan_.bytes + shift;
    matrix.offset = offset;
    plan_.pieces.push_back({&tensor, offset, matrix.panel_stride});
  }

  const GgufView& file_;
  PackPlan plan_;
};

}  // namespace

WeightLayout LayOutWeights(const GgufView& file, const ModelConfig& config) {
  Layout layout(file);
  WeightLayout result;
  for (int i = 0; i < config.layers; ++i) {
    const std::string prefix = fmt::format("blk.{}.", i);
    LayerWeights& layer = result.weights.layers.emplace_back();
    layer.attention_norm = layout.Vector(prefix + "attn_norm.weight");
    layer.feed_forward_norm = layout.Vector(prefix + "ffn_norm.weight");
    layer.q = layout.Matrix(prefix + "attn_q.weight");
    layer.k = layout.Matrix(prefix + "attn_k.weight");
    layer.v = layout.Matrix(prefix + "attn_v.weight");
    layer.output = layout.Matrix(prefix + "attn_output.weight");
    layout.Interleaved(prefix + "ffn_gate.weight", prefix + "ffn_up.weight", layer.gate, layer.up);
    layer.down = layout.Matrix(prefix + "ffn_down.weight");
  }
  result.weights.final_norm = layout.Vector("output_norm.weight");
  const bool tied = file.FindTensor("output.weight") == nullptr;
  result.weights.head = layout.Matrix(tied ? "token_embd.weight" : "output.weight");
  result.weights.embedding = file.FindTensor("token_embd.weight");
  result.plan = layout.TakePlan();
  return result;
}

void Bind(const std::byte* image, Weights& weights) {
  for (LayerWeights& layer : weights.layers)
    for (PackedMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down})
      matrix->image = image;
  weights.head.image = image;
}

}  // namespace tandem::model

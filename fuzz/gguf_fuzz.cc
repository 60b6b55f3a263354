// Any bytes may be called a model file: reading them never touches memory outside them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/checkpoint.h"
#include "model/dequant.h"
#include "model/tokenizer_metadata.h"
#include "model/weight_layout.h"

namespace {

// Touches the first and last row of a tensor.
void ReadRows(const tandem::model::Tensor& tensor) {
  constexpr int64_t kMaxRow = 1 << 16;
  if (tensor.Inputs() > kMaxRow) return;
  std::vector<float> values(static_cast<size_t>(tensor.Inputs()));
  const size_t row = tandem::model::RowBytes(tensor.type, tensor.Inputs());
  tandem::model::DequantizeRow(tensor.type, tensor.bytes.data(), values);
  tandem::model::DequantizeRow(tensor.type, tensor.bytes.data() + tensor.bytes.size() - row,
                               values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::model;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const tandem::Result<GgufView> view = GgufView::Parse(bytes, "fuzz");
  if (!view) return 0;
  for (const Tensor& tensor : view->tensors()) ReadRows(tensor);
  for (const auto& [key, value] : view->metadata()) {
    static_cast<void>(view->Strings(key));
    static_cast<void>(view->Ints(key));
    static_cast<void>(view->Floats(key));
    static_cast<void>(view->Float(key));
    static_cast<void>(view->Bool(key));
  }
  static_cast<void>(ReadTokenizerMetadata(*view));
  const auto checkpoint = Checkpoint::Of(*view);
  if (checkpoint) static_cast<void>(LayOutWeights(**checkpoint));
  return 0;
}

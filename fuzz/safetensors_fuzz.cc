// Any bytes may be called a safetensors file: what is accepted lies inside the file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::model;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto view = SafetensorsView::Parse(file, "fuzz");
  if (!view) return 0;
  for (const Tensor& tensor : view->tensors()) {
    if (tensor.bytes.size() !=
        static_cast<size_t>(tensor.Rows()) * RowBytes(tensor.type, tensor.Inputs()))
      __builtin_trap();
    // The sanitizer notices a byte outside of the input.
    volatile std::byte last = tensor.bytes.back();
    static_cast<void>(last);
  }
  return 0;
}

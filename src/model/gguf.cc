#include "model/gguf.h"

#include <utility>

#include "model/gguf_cursor.h"

namespace tandem::model {

int64_t Tensor::Rows() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return rows;
}

const Tensor* GgufView::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufView::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  TRY_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  TRY_ASSIGN(GgufView view, GgufView::Parse(mapped.bytes(), path));
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(mapped), std::move(view)));
}

}  // namespace tandem::model

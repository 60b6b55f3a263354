#include "model/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

namespace {

// Closes a descriptor at the end of a scope; the mapping outlives it.
struct DescriptorGuard {
  int fd;
  ~DescriptorGuard() { ::close(fd); }
};

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return Err(error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kInvalidArgument,
               "cannot open model file '{}': {}", path, std::strerror(error));
  }
  const DescriptorGuard guard{fd};
  struct stat info = {};
  if (::fstat(fd, &info) != 0)
    return Err(Code::kInternal, "cannot examine model file '{}': {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return Err(Code::kInvalidArgument, "'{}' is not a regular file: name a .gguf file", path);
  if (info.st_size == 0)
    return Err(Code::kCorrupt, "model file '{}' is empty: fetch it again", path);

  const size_t size = static_cast<size_t>(info.st_size);
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping == MAP_FAILED)
    return Err(Code::kResourceExhausted, "cannot map model file '{}' ({} bytes): {}", path, size,
               std::strerror(errno));
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->bytes_ = {static_cast<const std::byte*>(mapping), size};
  TRY_ASSIGN(GgufView view, GgufView::Parse(file->bytes_, path));
  file->view_.emplace(std::move(view));
  return file;
}

GgufFile::~GgufFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tandem::model

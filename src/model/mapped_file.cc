#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tandem::model {
namespace {

// Closes a descriptor at the end of a scope; the mapping outlives it.
struct DescriptorGuard {
  int fd;
  ~DescriptorGuard() { ::close(fd); }
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
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
    return Err(Code::kInvalidArgument, "'{}' is not a regular file: name a model file", path);
  if (info.st_size == 0)
    return Err(Code::kCorrupt, "model file '{}' is empty: fetch it again", path);
  const auto size = static_cast<size_t>(info.st_size);
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping == MAP_FAILED)
    return Err(Code::kResourceExhausted, "cannot map model file '{}' ({} bytes): {}", path, size,
               std::strerror(errno));
  return MappedFile(std::span(static_cast<const std::byte*>(mapping), size));
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tandem::model

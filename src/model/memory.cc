#include "model/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace tandem::model {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<Mapping> Mapping::Anonymous(size_t bytes) {
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const size_t whole = rounded + kHugePage;
  void* p = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return Err(Code::kResourceExhausted, "cannot get {} bytes of memory: {}", whole,
               std::strerror(errno));
  // Cut the mapping to its aligned part.
  auto* start = static_cast<std::byte*>(p);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(p) % kHugePage) % kHugePage;
  if (skip > 0) munmap(start, skip);
  if (skip < kHugePage) munmap(start + skip + rounded, kHugePage - skip);
  // A hint: without huge pages everything works, only slower.
  madvise(start + skip, rounded, MADV_HUGEPAGE);
  return Mapping({start + skip, rounded});
}

Result<Mapping> Mapping::File(int fd, size_t bytes, bool writable, const std::string& path) {
  void* p = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return Err(Code::kResourceExhausted, "cannot map {} ({} bytes): {}", path, bytes,
               std::strerror(errno));
  return Mapping({static_cast<std::byte*>(p), bytes});
}

}  // namespace tandem::model

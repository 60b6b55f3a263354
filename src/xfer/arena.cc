#include "xfer/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace tandem::xfer {
namespace {

// Huge pages need ranges aligned to their size.
constexpr size_t kHugePage = size_t{2} << 20;

std::string ErrnoText() { return std::strerror(errno); }

Result<Fd> CreateMemfd(size_t bytes) {
  Fd fd(memfd_create("tandem-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return Err(Code::kResourceExhausted, "memfd_create for the KV arena failed: {}", ErrnoText());
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Err(Code::kResourceExhausted,
               "a KV arena of {} bytes cannot be made: {}; lower "
               "--kv-cache-memory-bytes",
               bytes, ErrnoText());
  }
  return fd;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (valid()) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (valid()) close(fd_);
}

Result<Arena> Arena::Create(const Options& options) {
  CHECK(options.block_bytes > 0 && options.blocks > 0);
  Arena arena;
  arena.options_ = options;
  const size_t bytes = (arena.bytes() + kHugePage - 1) / kHugePage * kHugePage;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (options.shared) {
    TRY_ASSIGN(arena.fd_, CreateMemfd(bytes));
    flags = MAP_SHARED;
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, arena.fd_.get(), 0);
  if (data == MAP_FAILED) {
    return Err(Code::kResourceExhausted,
               "a KV arena of {} bytes cannot be mapped: {}; lower "
               "--kv-cache-memory-bytes",
               bytes, ErrnoText());
  }
  arena.data_ = static_cast<std::byte*>(data);
  arena.mapped_bytes_ = bytes;
  // Advice: without huge pages the arena works too, a little slower at first touch.
  madvise(data, bytes, MADV_HUGEPAGE);
  // Only now: F_SEAL_FUTURE_WRITE forbids new writable mappings, ours stays.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (options.shared && fcntl(arena.fd(), F_ADD_SEALS, kSeals) != 0) {
    return Err(Code::kUnsupported,
               "the KV arena cannot be sealed: {}; Linux 5.1 or later is needed", ErrnoText());
  }
  return arena;
}

void Arena::Unmap() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
  data_ = nullptr;
}

Arena::Arena(Arena&& other) noexcept
    : options_(other.options_),
      fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(other.mapped_bytes_) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    Unmap();
    options_ = other.options_;
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    mapped_bytes_ = other.mapped_bytes_;
  }
  return *this;
}

Arena::~Arena() { Unmap(); }

Result<ArenaMapping> ArenaMapping::Map(Fd fd, size_t bytes) {
  struct stat info{};
  if (bytes == 0 || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0 ||
      static_cast<size_t>(info.st_size) < bytes) {
    return Err(Code::kCorrupt, "the KV arena received has {} bytes, {} were announced",
               static_cast<int64_t>(info.st_size), bytes);
  }
  // Without this seal the owner could shrink the file, and reading beyond its end would kill us.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Err(Code::kCorrupt, "the KV arena received is not sealed against shrinking");
  }
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return Err(Code::kResourceExhausted,
               "the KV arena of another worker ({} bytes) cannot be "
               "mapped: {}",
               bytes, ErrnoText());
  }
  return ArenaMapping(static_cast<const std::byte*>(data), bytes);
}

ArenaMapping::ArenaMapping(ArenaMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

ArenaMapping::~ArenaMapping() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
}

}  // namespace tandem::xfer

// The memory of the KV blocks.
#ifndef TANDEM_XFER_ARENA_H_
#define TANDEM_XFER_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace tandem::xfer {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The owner's arena: block b starts at data() + b * block_bytes(). Zeroed at first. Other threads
// may read and write different blocks at once; who may touch which block when is decided by the
// block pool and the lease table, not here.
class Arena {
 public:
  struct Options {
    size_t block_bytes = 0;
    int32_t blocks = 0;
    // A shared arena is a memfd that readers on this host can map, read-only: its seals keep them
    // from writing and from shrinking it under anybody's feet. One that is not shared is anonymous
    // memory, which gets huge pages on more machines: for workers that only read.
    bool shared = true;
  };
  static Result<Arena> Create(const Options& options);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }
  std::byte* Block(int32_t block) const {
    return data_ + static_cast<size_t>(block) * options_.block_bytes;
  }
  size_t block_bytes() const { return options_.block_bytes; }
  int32_t blocks() const { return options_.blocks; }
  size_t bytes() const { return options_.block_bytes * static_cast<size_t>(options_.blocks); }
  int fd() const { return fd_.get(); }  // -1 if not shared

 private:
  Arena() = default;
  void Unmap();

  Options options_;
  Fd fd_;
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

// Another process's arena, mapped read-only.
class ArenaMapping {
 public:
  // Takes a descriptor that came from a peer and trusts nothing about it: kCorrupt unless it is
  // a regular file of at least `bytes` bytes that is sealed against shrinking.
  static Result<ArenaMapping> Map(Fd fd, size_t bytes);
  ArenaMapping(ArenaMapping&& other) noexcept;
  ArenaMapping& operator=(ArenaMapping&&) = delete;
  ~ArenaMapping();
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  ArenaMapping(const std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_ARENA_H_

// Memory straight from the system: anonymous, zeroed, aligned to 2 MiB and backed by huge pages
// where the system gives them, so that streaming through it costs few address translations.
#ifndef TANDEM_MODEL_MEMORY_H_
#define TANDEM_MODEL_MEMORY_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace tandem::model {

// Owns a mapping. Empty when default-constructed or moved from.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  static Result<Mapping> Anonymous(size_t bytes);
  // The first `bytes` of an open file, shared. The file can be closed afterwards.
  static Result<Mapping> File(int fd, size_t bytes, bool writable, const std::string& path);

  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MEMORY_H_

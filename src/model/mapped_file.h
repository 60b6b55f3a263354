// A model file mapped read-only.
#ifndef TANDEM_MODEL_MAPPED_FILE_H_
#define TANDEM_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace tandem::model {

// Owns the mapping; whatever refers to its bytes ends with it. Empty when moved from.
class MappedFile {
 public:
  // A regular file that is not empty.
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MAPPED_FILE_H_

// Packed weights of a model: from a cache file that all workers of a host map read-only, or, where
// there is no cache folder or it cannot be written, in this process's own memory.
#ifndef TANDEM_MODEL_PACKED_CACHE_H_
#define TANDEM_MODEL_PACKED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/team.h"
#include "model/memory.h"
#include "model/pack.h"

namespace tandem::model {

// One matrix of the packed image: panel p of `source` goes to offset + p * stride.
struct PackPiece {
  PackSource source;
  size_t offset = 0;
  size_t stride = 0;
};

struct PackPlan {
  std::vector<PackPiece> pieces;
  size_t bytes = 0;
};

struct PackedImage {
  Mapping mapping;
  const std::byte* data = nullptr;  // plan.bytes, aligned to 64
  bool from_cache = false;          // nothing had to be packed
};

// The most that packed files in one folder may take together; the longest unused go first.
inline constexpr size_t kPackedCacheBytes = size_t{32} << 30;

// Up to this size an image is read, not mapped.
inline constexpr size_t kCopiedImageBytes = size_t{1} << 30;

// Removes packed files from a folder, the longest unused first, until they take at most `bytes`;
// never `keep`. LoadPacked does so with kPackedCacheBytes after it has added a file.
void TrimPacked(const std::string& folder, const std::string& keep, uintmax_t bytes);

// `key` names the plan and the weights it was made from (lower-case hex). The folder is created
// with mode 0700. A file that is damaged (every chunk has a checksum) or of
// another size is replaced. `progress` gets fractions
// from 0 to 1 on the calling thread.
Result<PackedImage> LoadPacked(const PackPlan& plan, const std::string& key,
                               const std::string& cache_dir, Team& team,
                               const std::function<void(double)>& progress);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_PACKED_CACHE_H_

// Copying blocks between arenas.
#ifndef TANDEM_XFER_BLOCK_COPY_H_
#define TANDEM_XFER_BLOCK_COPY_H_

#include <cstddef>
#include <span>
#include <vector>

#include "xfer/kv_reader.h"

namespace tandem::xfer::internal {

struct CopyRange {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t bytes = 0;
};

// The fewest copies that move the blocks out of an arena at `base`: blocks that are neighbours in
// the list and in both arenas are one range. Ranges are cut at `max_bytes`.
std::vector<CopyRange> PlanCopies(const std::byte* base, size_t block_bytes,
                                  std::span<const PullBlock> blocks, size_t max_bytes);

void Copy(std::span<const CopyRange> ranges);

}  // namespace tandem::xfer::internal

#endif  // TANDEM_XFER_BLOCK_COPY_H_

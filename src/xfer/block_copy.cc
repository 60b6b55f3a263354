#include "xfer/block_copy.h"

#include <algorithm>
#include <cstring>

namespace tandem::xfer::internal {

std::vector<CopyRange> PlanCopies(const std::byte* base, size_t block_bytes,
                                  std::span<const PullBlock> blocks, size_t max_bytes) {
  std::vector<CopyRange> whole;
  for (const PullBlock& block : blocks) {
    const std::byte* from = base + static_cast<size_t>(block.remote.block) * block_bytes;
    const bool follows = !whole.empty() && whole.back().from + whole.back().bytes == from &&
                         whole.back().to + whole.back().bytes == block.destination;
    if (follows) {
      whole.back().bytes += block_bytes;
    } else {
      whole.push_back({from, block.destination, block_bytes});
    }
  }
  std::vector<CopyRange> cut;
  for (const CopyRange& range : whole) {
    for (size_t at = 0; at < range.bytes; at += max_bytes) {
      cut.push_back({range.from + at, range.to + at, std::min(max_bytes, range.bytes - at)});
    }
  }
  return cut;
}

void Copy(std::span<const CopyRange> ranges) {
  for (const CopyRange& range : ranges) std::memcpy(range.to, range.from, range.bytes);
}

}  // namespace tandem::xfer::internal

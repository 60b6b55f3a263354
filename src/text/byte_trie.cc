#include "text/byte_trie.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tandem::text {

ByteTrie::ByteTrie(size_t bytes) {
  roots_.fill(kNone);
  Resize(std::bit_ceil(std::max<size_t>(bytes, 16)));
  ids_.push_back(-1);
}

void ByteTrie::Resize(size_t slots) {
  const std::vector<Entry> old = std::exchange(slots_, std::vector<Entry>(slots));
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (const Entry& entry : old) {
    if (entry.key != kEmpty) Insert(entry.key, entry.child);
  }
}

void ByteTrie::Insert(uint32_t key, uint32_t child) {
  size_t slot = Slot(key);
  while (slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
  slots_[slot] = {key, child};
}

bool ByteTrie::Add(std::string_view key, int32_t id) {
  uint32_t node = kRoot;
  for (const char c : key) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == kNone) {
      if (ids_.size() >= kMaxNodes) return false;
      child = static_cast<uint32_t>(ids_.size());
      if (node == kRoot) {
        roots_[byte] = child;
      } else {
        if (2 * ids_.size() > slots_.size()) Resize(2 * slots_.size());
        Insert(node << 8 | byte, child);
      }
      ids_.push_back(-1);
    }
    node = child;
  }
  if (node != kRoot) ids_[node] = id;
  return true;
}

}  // namespace tandem::text

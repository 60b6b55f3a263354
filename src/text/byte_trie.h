// A trie over byte strings in one hash table: (node, byte) to node.
#ifndef TANDEM_TEXT_BYTE_TRIE_H_
#define TANDEM_TEXT_BYTE_TRIE_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::text {

// Filled once, then read by any number of threads.
class ByteTrie {
 public:
  static constexpr uint32_t kMaxNodes = (1U << 24) - 1;

  // `bytes`: about how many bytes will be added in all.
  explicit ByteTrie(size_t bytes);

  // The later of two equal keys stays. False once there are too many nodes.
  bool Add(std::string_view key, int32_t id);

  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  // The child, or kNone.
  uint32_t Child(uint32_t node, uint8_t byte) const {
    if (node == kRoot) return roots_[byte];
    const uint32_t key = node << 8 | byte;
    for (size_t slot = Slot(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].child;
      if (slots_[slot].key == kEmpty) return kNone;
    }
  }
  int32_t IdOf(uint32_t node) const { return ids_[node]; }  // -1: no key ends here

  // Calls each(bytes, id) for every key that `text` begins with, shortest first.
  template <class Each>
  void ForEachPrefix(std::string_view text, Each each) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == kNone) return;
      if (ids_[node] >= 0) each(i + 1, ids_[node]);
    }
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFF;
  struct Entry {
    uint32_t key = kEmpty;
    uint32_t child = kNone;
  };
  size_t Slot(uint32_t key) const { return (key * 0x9E3779B97F4A7C15ULL) >> shift_; }
  void Resize(size_t slots);
  void Insert(uint32_t key, uint32_t child);

  std::array<uint32_t, 256> roots_;
  std::vector<Entry> slots_;
  std::vector<int32_t> ids_;
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_BYTE_TRIE_H_

// Byte-pair merging of one word's symbols.
#ifndef TANDEM_TEXT_BPE_H_
#define TANDEM_TEXT_BPE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::text {

// Merge rules by pair of ids: open addressing, filled once.
class MergeTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct Merge {
    uint32_t rank = kNone;  // lower merges first; kNone: the pair does not merge
    int32_t merged = -1;
  };

  explicit MergeTable(size_t merges);
  // A pair that is given again takes the later rank.
  void Add(int32_t left, int32_t right, Merge merge);
  Merge Find(int32_t left, int32_t right) const {
    const uint64_t key = Key(left, right);
    for (size_t slot = Slot(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return {};
    }
  }

 private:
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t Slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ULL) >> shift_; }

  std::vector<Entry> slots_;
  size_t mask_ = 0;
  int shift_ = 0;
};

// Merges the symbols of one word in place and returns how many are left, at the front. The pair of
// lowest rank merges first, the leftmost of equals.
size_t MergeSymbols(const MergeTable& merges, std::span<int32_t> symbols);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_BPE_H_

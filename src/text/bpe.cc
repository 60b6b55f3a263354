#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

namespace tandem::text {
namespace {

// Below this length a plain search for the lowest rank beats a heap.
constexpr size_t kShortWord = 48;

size_t MergeShort(const MergeTable& merges, std::span<int32_t> ids) {
  std::array<MergeTable::Merge, kShortWord> pairs;  // pairs[i] merges ids[i] and ids[i + 1]
  size_t count = ids.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.Find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == MergeTable::kNone) break;
    ids[best] = pairs[best].merged;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      pairs[i - 1] = pairs[i];
    }
    if (best > 0) pairs[best - 1] = merges.Find(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = merges.Find(ids[best], ids[best + 1]);
  }
  return count;
}

// Merging of a long word. Symbols form a linked list. Candidate pairs wait in one heap of places
// per rank, and a heap holds the ranks: places come in order, so that their heaps cost next to
// nothing and a run of a million equal letters is quick. Candidates that no longer match the list
// are passed over.
class LongWord {
 public:
  LongWord(const MergeTable& merges, std::span<const int32_t> ids) : merges_(merges) {
    symbols_.reserve(ids.size());
    for (const int32_t id : ids) {
      const auto at = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({id, MergeTable::kNone, at - 1, at + 1});
    }
    symbols_.back().next = kEnd;
  }

  void Merge() {
    for (uint32_t at = 0; at < symbols_.size(); ++at) Offer(at);
    while (!ranks_.empty()) {
      const uint32_t rank = ranks_.top();
      Places& places = places_[rank];
      const uint32_t at = places.top();
      places.pop();
      if (places.empty()) ranks_.pop();
      if (symbols_[at].rank == rank) MergeAt(at);
    }
  }

  size_t Collect(std::span<int32_t> out) const {
    size_t count = 0;
    for (uint32_t at = 0; at != kEnd; at = symbols_[at].next) out[count++] = symbols_[at].id;
    return count;
  }

 private:
  static constexpr uint32_t kEnd = 0xFFFFFFFF;
  using Places = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
  struct Symbol {
    int32_t id;
    uint32_t rank;  // of the pair with the next symbol; kNone also once merged away
    uint32_t previous;
    uint32_t next;
  };

  void Offer(uint32_t at) {
    Symbol& left = symbols_[at];
    left.rank = MergeTable::kNone;
    if (left.next == kEnd) return;
    const MergeTable::Merge merge = merges_.Find(left.id, symbols_[left.next].id);
    if (merge.rank == MergeTable::kNone) return;
    left.rank = merge.rank;
    Places& places = places_[merge.rank];
    if (places.empty()) ranks_.push(merge.rank);
    places.push(at);
  }

  void MergeAt(uint32_t at) {
    Symbol& left = symbols_[at];
    Symbol& right = symbols_[left.next];
    left.id = merges_.Find(left.id, right.id).merged;
    left.next = right.next;
    right.rank = MergeTable::kNone;
    if (right.next != kEnd) symbols_[right.next].previous = at;
    if (left.previous != kEnd) Offer(left.previous);
    Offer(at);
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::unordered_map<uint32_t, Places> places_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;
};

}  // namespace

MergeTable::MergeTable(size_t merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(2 * merges, 16));
  slots_.resize(size);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
}

void MergeTable::Add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = Key(left, right);
  size_t slot = Slot(key);
  while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

size_t MergeSymbols(const MergeTable& merges, std::span<int32_t> symbols) {
  if (symbols.size() < 2) return symbols.size();
  if (symbols.size() <= kShortWord) return MergeShort(merges, symbols);
  LongWord word(merges, symbols);
  word.Merge();
  return word.Collect(symbols);
}

}  // namespace tandem::text

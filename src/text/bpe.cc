#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

namespace tandem::text {
namespace {

// Below this length a plain search for the lowest rank beats a heap.
constexpr size_t kShortWord = 48;

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

void Bpe::Encode(std::string_view word, std::vector<int32_t>& out) const {
  if (word.size() <= kShortWord) {
    EncodeShort(word, out);
  } else {
    EncodeLong(word, out);
  }
}

void Bpe::EncodeShort(std::string_view word, std::vector<int32_t>& out) const {
  std::array<int32_t, kShortWord> ids;
  std::array<MergeTable::Merge, kShortWord> pairs;  // pairs[i] merges ids[i] and ids[i + 1]
  size_t count = 0;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) ids[count++] = id;
  }
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges_.Find(ids[i], ids[i + 1]);
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
    if (best > 0) pairs[best - 1] = merges_.Find(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = merges_.Find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.data(), ids.data() + count);
}

// Symbols form a linked list; the heap holds candidate merges, of which those that no longer match
// the list are passed over when they come up.
void Bpe::EncodeLong(std::string_view word, std::vector<int32_t>& out) const {
  constexpr uint32_t kEnd = 0xFFFFFFFF;
  struct Symbol {
    int32_t id;
    uint32_t previous;
    uint32_t next;
    MergeTable::Merge pair;  // with the next symbol; rank kNone also once merged away
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id < 0) continue;
    const auto at = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1, {}});
  }
  if (symbols.empty()) return;
  symbols.back().next = kEnd;

  // Rank in the high half, position in the low half: the smallest is what merges next.
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap;
  const auto pair_up = [&](uint32_t at) {
    Symbol& left = symbols[at];
    left.pair =
        left.next == kEnd ? MergeTable::Merge{} : merges_.Find(left.id, symbols[left.next].id);
    if (left.pair.rank != MergeTable::kNone) heap.push(uint64_t{left.pair.rank} << 32 | at);
  };
  for (uint32_t at = 0; at < symbols.size(); ++at) pair_up(at);
  while (!heap.empty()) {
    const uint64_t top = heap.top();
    heap.pop();
    const auto at = static_cast<uint32_t>(top);
    Symbol& left = symbols[at];
    if (left.pair.rank != static_cast<uint32_t>(top >> 32)) continue;
    Symbol& right = symbols[left.next];
    left.id = left.pair.merged;
    left.next = right.next;
    right.pair = {};
    if (right.next != kEnd) symbols[right.next].previous = at;
    if (left.previous != kEnd) pair_up(left.previous);
    pair_up(at);
  }
  for (uint32_t at = 0; at != kEnd; at = symbols[at].next) out.push_back(symbols[at].id);
}

}  // namespace tandem::text

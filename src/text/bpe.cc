#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

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

namespace {

// Merging of a long word. Symbols form a linked list. Candidate pairs wait in one bucket per rank,
// and a heap holds the ranks: a bucket is worked off in one sweep from left to right, so that a run
// of a million equal letters costs a few sweeps. Candidates that no longer match the list are
// passed over.
class LongWord {
 public:
  LongWord(const MergeTable& merges, size_t bytes) : merges_(merges) { symbols_.reserve(bytes); }

  void Append(int32_t id) {
    const auto at = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({id, MergeTable::kNone, at - 1, at + 1});
  }

  void Merge() {
    if (symbols_.empty()) return;
    symbols_.back().next = kEnd;
    for (uint32_t at = 0; at < symbols_.size(); ++at) Offer(at);
    while (!ranks_.empty()) {
      const uint32_t rank = ranks_.top();
      ranks_.pop();
      Sweep(rank);
    }
  }

  void Collect(std::vector<int32_t>& out) const {
    if (symbols_.empty()) return;
    for (uint32_t at = 0; at != kEnd; at = symbols_[at].next) out.push_back(symbols_[at].id);
  }

 private:
  static constexpr uint32_t kEnd = 0xFFFFFFFF;
  struct Symbol {
    int32_t id;
    uint32_t rank;  // of the pair with the next symbol; kNone also once merged away
    uint32_t previous;
    uint32_t next;
  };
  struct Bucket {
    int32_t merged = -1;
    std::vector<uint32_t> at;  // left symbols of the candidate pairs
  };

  void Offer(uint32_t at) {
    Symbol& left = symbols_[at];
    left.rank = MergeTable::kNone;
    if (left.next == kEnd) return;
    const MergeTable::Merge merge = merges_.Find(left.id, symbols_[left.next].id);
    if (merge.rank == MergeTable::kNone) return;
    left.rank = merge.rank;
    Bucket& bucket = buckets_[merge.rank];
    if (bucket.at.empty()) ranks_.push(merge.rank);
    bucket.merged = merge.merged;
    bucket.at.push_back(at);
  }

  void Sweep(uint32_t rank) {
    const int32_t merged = buckets_[rank].merged;
    std::vector<uint32_t> sweep = std::exchange(buckets_[rank].at, {});
    if (!std::is_sorted(sweep.begin(), sweep.end())) std::sort(sweep.begin(), sweep.end());
    for (size_t i = 0; i < sweep.size(); ++i) {
      // A merge may open a pair of lower rank where the list of merges is out of order.
      if (!ranks_.empty() && ranks_.top() < rank) {
        for (; i < sweep.size(); ++i) {
          if (symbols_[sweep[i]].rank == rank) Offer(sweep[i]);
        }
        return;
      }
      const uint32_t at = sweep[i];
      if (symbols_[at].rank != rank) continue;
      Symbol& left = symbols_[at];
      Symbol& right = symbols_[left.next];
      left.id = merged;
      left.next = right.next;
      right.rank = MergeTable::kNone;
      if (right.next != kEnd) symbols_[right.next].previous = at;
      if (left.previous != kEnd) Offer(left.previous);
      Offer(at);
    }
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::unordered_map<uint32_t, Bucket> buckets_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;
};

}  // namespace

void Bpe::EncodeLong(std::string_view word, std::vector<int32_t>& out) const {
  LongWord symbols(merges_, word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.Append(id);
  }
  symbols.Merge();
  symbols.Collect(out);
}

}  // namespace tandem::text

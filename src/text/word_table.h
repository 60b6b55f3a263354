// Words that are one token, by their bytes: most words of ordinary text end here.
#ifndef TANDEM_TEXT_WORD_TABLE_H_
#define TANDEM_TEXT_WORD_TABLE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tandem::text {

// Keys are views that the caller keeps alive. At most `capacity` words, filled once.
class WordTable {
 public:
  explicit WordTable(size_t capacity) {
    slots_.resize(std::bit_ceil(std::max<size_t>(2 * capacity, 16)));
    mask_ = slots_.size() - 1;
  }

  void Add(std::string_view word, int32_t id) {
    const uint64_t hash = Hash(word);
    size_t slot = hash & mask_;
    while (slots_[slot].id >= 0) {
      if (slots_[slot].word == word) return;
      slot = (slot + 1) & mask_;
    }
    slots_[slot] = {word, static_cast<uint32_t>(hash >> 32), id};
  }

  // The id, or -1.
  int32_t Find(std::string_view word) const {
    const uint64_t hash = Hash(word);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    for (size_t slot = hash & mask_; slots_[slot].id >= 0; slot = (slot + 1) & mask_) {
      if (slots_[slot].tag == tag && slots_[slot].word == word) return slots_[slot].id;
    }
    return -1;
  }

 private:
  struct Slot {
    std::string_view word;
    uint32_t tag = 0;
    int32_t id = -1;
  };

  // Short words are mixed in registers; the hash decides only where a word lies, never identity.
  static uint64_t Hash(std::string_view word) {
    const size_t size = word.size();
    if (size > 16) return Xxh3(std::as_bytes(std::span(word.data(), size)));
    uint64_t low = 0;
    uint64_t high = 0;
    if (size >= 8) {
      std::memcpy(&low, word.data(), 8);
      std::memcpy(&high, word.data() + size - 8, 8);
    } else if (size >= 4) {
      uint32_t front = 0;
      uint32_t back = 0;
      std::memcpy(&front, word.data(), 4);
      std::memcpy(&back, word.data() + size - 4, 4);
      low = front;
      high = back;
    } else if (size > 0) {
      const auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(word[i])}; };
      low = byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
    }
    uint64_t mixed = (low ^ 0x9E3779B97F4A7C15ULL) * 0xD6E8FEB86659FD93ULL;
    mixed ^= mixed >> 32;
    mixed = (mixed ^ high ^ size << 56) * 0xC2B2AE3D27D4EB4FULL;
    mixed ^= mixed >> 29;
    return mixed * 0x9E3779B97F4A7C15ULL ^ mixed >> 32;
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_WORD_TABLE_H_

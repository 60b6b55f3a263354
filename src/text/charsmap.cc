#include "text/charsmap.h"

#include <utf8proc.h>

#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

uint32_t ReadU32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return value;
}

}  // namespace

Result<Charsmap> Charsmap::Parse(std::string_view bytes) {
  if (bytes.size() < 8) {
    return Err(Code::kCorrupt, "tokenizer charsmap: {} bytes are too few", bytes.size());
  }
  const size_t size = ReadU32(bytes, 0);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) {
    return Err(Code::kCorrupt, "tokenizer charsmap: a trie of {} bytes in a map of {}", size,
               bytes.size());
  }
  Charsmap map;
  map.units_.resize(size / 4);
  for (size_t i = 0; i < map.units_.size(); ++i) map.units_[i] = ReadU32(bytes, 4 + 4 * i);
  map.texts_ = bytes.substr(4 + size);
  return map;
}

std::optional<std::string_view> Charsmap::TextAt(uint32_t offset) const {
  if (offset >= texts_.size()) return std::nullopt;
  const size_t end = texts_.find('\0', offset);
  return std::string_view(texts_).substr(
      offset, end == std::string::npos ? std::string::npos : end - offset);
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool shortest) const {
  std::optional<Match> found;
  size_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (node >= units_.size()) break;
    if (!HasLeaf(unit)) continue;
    if (const auto target = TextAt(Value(units_[node]))) {
      found = Match{i + 1, *target};
      if (shortest) return found;
    }
  }
  return found;
}

void Charsmap::AppendByGraphemes(std::string_view text, std::string& out) const {
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t state = 0;
    ScannedChar last = ScanChar(text.data() + at);
    size_t end = at + last.bytes;
    while (end < text.size()) {
      const ScannedChar next = ScanChar(text.data() + end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state)) {
        break;
      }
      end += next.bytes;
      last = next;
    }
    const std::string_view cluster = text.substr(at, end - at);
    at = end;
    if (cluster.size() < 6) {
      if (const auto match = Shortest(cluster)) {
        out.append(match->text);
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, CharBytes(cluster[i]));
      const auto match = Shortest(character);
      out.append(match ? match->text : character);
      i += character.size();
    }
  }
}

void Charsmap::AppendLongest(std::string_view text, std::string& out) const {
  while (!text.empty()) {
    const auto match = Longest(text);
    const size_t bytes = match ? match->bytes : CharBytes(text.front());
    out.append(match ? match->text : text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

}  // namespace tandem::text

#include "text/utf8.h"

#include <cstring>

namespace tandem::text {
namespace {

// What the bytes at the front are: a whole code point, a wrong byte, or the start of a code point
// that needs more bytes than there are.
enum class Shape : uint8_t { kWhole, kWrong, kCut };

struct Look {
  char32_t value = 0xFFFD;
  uint32_t bytes = 1;
  Shape shape = Shape::kWrong;
};

constexpr bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Well-formed sequences by table 3-7 of the Unicode standard: only the second byte's range depends
// on the first byte.
Look LookAt(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1, Shape::kWhole};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  char32_t value = lead & (0xFFU >> (length + 1));
  for (uint32_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {0xFFFD, i, Shape::kCut};
    const uint8_t byte = at(i);
    const bool good = i == 1 ? byte >= low && byte <= high : IsContinuation(byte);
    if (!good) return {0xFFFD, i, Shape::kWrong};
    value = value << 6 | (byte & 0x3FU);
  }
  return {value, length, Shape::kWhole};
}

size_t AsciiPrefix(std::string_view bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (i < bytes.size() && static_cast<uint8_t>(bytes[i]) < 0x80) ++i;
  return i;
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(AsciiPrefix(bytes));
    if (bytes.empty()) return true;
    const Look look = LookAt(bytes);
    if (look.shape != Shape::kWhole) return false;
    bytes.remove_prefix(look.bytes);
  }
}

CodePoint DecodeUtf8(std::string_view bytes) {
  const Look look = LookAt(bytes);
  return {look.value, look.bytes, look.shape == Shape::kWhole};
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if ((code_point >= 0xD800 && code_point <= 0xDFFF) || code_point > 0x10FFFF) {
    out.append(kReplacement);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += IsContinuation(static_cast<uint8_t>(c)) ? 0 : 1;
  return count;
}

size_t OffsetOfCodePoint(std::string_view text, size_t index) {
  size_t offset = 0;
  while (offset < text.size() && index > 0) {
    ++offset;
    while (offset < text.size() && IsContinuation(static_cast<uint8_t>(text[offset]))) ++offset;
    --index;
  }
  return offset;
}

void AppendLossy(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t ascii = AsciiPrefix(bytes);
    out.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) return;
    const Look look = LookAt(bytes);
    out.append(look.shape == Shape::kWhole ? bytes.substr(0, look.bytes) : kReplacement);
    bytes.remove_prefix(look.bytes);
  }
}

void Utf8Decoder::Push(std::string_view bytes, std::string& out) {
  while (held_size_ > 0 && !bytes.empty()) {
    held_[held_size_++] = bytes.front();
    const Look look = LookAt({held_.data(), held_size_});
    if (look.shape == Shape::kCut) {
      bytes.remove_prefix(1);
      continue;
    }
    if (look.shape == Shape::kWhole) {
      out.append(held_.data(), held_size_);
      bytes.remove_prefix(1);
    } else {
      // The new byte does not continue what was held: that is broken, the byte starts afresh.
      out.append(kReplacement);
    }
    held_size_ = 0;
  }
  while (!bytes.empty()) {
    const size_t ascii = AsciiPrefix(bytes);
    out.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) return;
    const Look look = LookAt(bytes);
    if (look.shape == Shape::kCut) {
      held_size_ = bytes.copy(held_.data(), held_.size());
      return;
    }
    out.append(look.shape == Shape::kWhole ? bytes.substr(0, look.bytes) : kReplacement);
    bytes.remove_prefix(look.bytes);
  }
}

void Utf8Decoder::Flush(std::string& out) {
  if (held_size_ > 0) out.append(kReplacement);
  held_size_ = 0;
}

}  // namespace tandem::text

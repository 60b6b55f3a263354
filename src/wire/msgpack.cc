#include "wire/msgpack.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace tandem::wire {

void MsgpackWriter::Put(uint8_t tag, uint64_t v, int bytes) {
  std::array<std::byte, 9> encoded;
  encoded[0] = static_cast<std::byte>(tag);
  for (int i = bytes; i > 0; --i, v >>= 8) encoded[static_cast<size_t>(i)] = std::byte(v & 0xff);
  Append(encoded.data(), static_cast<size_t>(bytes) + 1);
}

void MsgpackWriter::Append(const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), bytes, bytes + size);
}

void MsgpackWriter::Int(int64_t v) {
  if (v >= 0) return Uint(static_cast<uint64_t>(v));
  const auto bits = static_cast<uint64_t>(v);
  if (v >= -32) return Put(static_cast<uint8_t>(bits));
  if (v >= std::numeric_limits<int8_t>::min()) {
    return Put(0xd0, bits, 1);
  }
  if (v >= std::numeric_limits<int16_t>::min()) {
    return Put(0xd1, bits, 2);
  }
  if (v >= std::numeric_limits<int32_t>::min()) {
    return Put(0xd2, bits, 4);
  }
  Put(0xd3, bits, 8);
}

void MsgpackWriter::Uint(uint64_t v) {
  if (v < 0x80) return Put(static_cast<uint8_t>(v));
  if (v <= 0xff) {
    return Put(0xcc, v, 1);
  }
  if (v <= 0xffff) {
    return Put(0xcd, v, 2);
  }
  if (v <= 0xffffffff) {
    return Put(0xce, v, 4);
  }
  Put(0xcf, v, 8);
}

void MsgpackWriter::Ints(std::span<const int32_t> v) {
  Array(v.size());
  constexpr size_t kLongest = 5;
  std::array<std::byte, 512> piece;
  size_t used = 0;
  for (const int32_t number : v) {
    if (used + kLongest > piece.size()) {
      Append(piece.data(), used);
      used = 0;
    }
    // Token ids are these two nearly always.
    const auto bits = static_cast<uint32_t>(number);
    if (bits < 0x80) {
      piece[used++] = std::byte(bits);
    } else if (bits > 0xff && bits <= 0xffff) {
      piece[used++] = std::byte{0xcd};
      piece[used++] = std::byte(bits >> 8);
      piece[used++] = std::byte(bits & 0xff);
    } else {
      Append(piece.data(), used);
      used = 0;
      Int(number);
    }
  }
  Append(piece.data(), used);
}

void MsgpackWriter::Float(float v) { Put(0xca, std::bit_cast<uint32_t>(v), 4); }

void MsgpackWriter::Double(double v) { Put(0xcb, std::bit_cast<uint64_t>(v), 8); }

void MsgpackWriter::Str(std::string_view v) {
  if (v.size() < 32) {
    Put(static_cast<uint8_t>(0xa0 | v.size()));
  } else if (v.size() <= 0xff) {
    Put(0xd9, v.size(), 1);
  } else if (v.size() <= 0xffff) {
    Put(0xda, v.size(), 2);
  } else {
    Put(0xdb, v.size(), 4);
  }
  Append(v.data(), v.size());
}

void MsgpackWriter::Bin(std::span<const std::byte> v) {
  if (v.size() <= 0xff) {
    Put(0xc4, v.size(), 1);
  } else if (v.size() <= 0xffff) {
    Put(0xc5, v.size(), 2);
  } else {
    Put(0xc6, v.size(), 4);
  }
  Append(v.data(), v.size());
}

void MsgpackWriter::Array(size_t count) {
  if (count < 16) return Put(static_cast<uint8_t>(0x90 | count));
  if (count <= 0xffff) {
    return Put(0xdc, count, 2);
  }
  Put(0xdd, count, 4);
}

void MsgpackWriter::Map(size_t count) {
  if (count < 16) return Put(static_cast<uint8_t>(0x80 | count));
  if (count <= 0xffff) {
    return Put(0xde, count, 2);
  }
  Put(0xdf, count, 4);
}

std::unexpected<Error> MsgpackReader::Wrong(std::string_view wanted) const {
  return Err(Code::kCorrupt, "msgpack: expected {} at byte {}", wanted, pos_);
}

Result<std::span<const std::byte>> MsgpackReader::Take(size_t size) {
  if (size > bytes_.size() - pos_)
    return Err(Code::kCorrupt, "msgpack: {} bytes wanted at byte {}, {} left", size, pos_,
               bytes_.size() - pos_);
  const auto taken = bytes_.subspan(pos_, size);
  pos_ += size;
  return taken;
}

Result<uint64_t> MsgpackReader::Big(int bytes) {
  TRY_ASSIGN(const auto raw, Take(static_cast<size_t>(bytes)));
  uint64_t v = 0;
  for (const std::byte b : raw) v = v << 8 | std::to_integer<uint64_t>(b);
  return v;
}

Result<MsgpackReader::Kind> MsgpackReader::Peek() const {
  if (AtEnd()) return Wrong("a value");
  const auto tag = std::to_integer<uint8_t>(bytes_[pos_]);
  if (tag < 0x80 || tag >= 0xe0) return Kind::kInt;
  if (tag < 0x90) return Kind::kMap;
  if (tag < 0xa0) return Kind::kArray;
  if (tag < 0xc0) return Kind::kStr;
  if (tag == 0xc0) return Kind::kNil;
  if (tag == 0xc1) return Wrong("a value (0xc1 is never used)");
  if (tag <= 0xc3) return Kind::kBool;
  if (tag <= 0xc6) return Kind::kBin;
  if (tag <= 0xc9) return Kind::kExt;
  if (tag <= 0xcb) return Kind::kFloat;
  if (tag <= 0xd3) return Kind::kInt;
  if (tag <= 0xd8) return Kind::kExt;
  if (tag <= 0xdb) return Kind::kStr;
  return tag <= 0xdd ? Kind::kArray : Kind::kMap;
}

Status MsgpackReader::Nil() {
  if (AtEnd() || bytes_[pos_] != std::byte{0xc0}) return Wrong("nil");
  ++pos_;
  return {};
}

Result<bool> MsgpackReader::Bool() {
  if (AtEnd() || (bytes_[pos_] != std::byte{0xc2} && bytes_[pos_] != std::byte{0xc3}))
    return Wrong("a boolean");
  return bytes_[pos_++] == std::byte{0xc3};
}

Result<int64_t> MsgpackReader::Int() {
  if (AtEnd()) return Wrong("an integer");
  const auto tag = std::to_integer<uint8_t>(bytes_[pos_]);
  if (tag >= 0xe0) {
    ++pos_;
    return int64_t{static_cast<int8_t>(tag)};
  }
  if (tag >= 0xd0 && tag <= 0xd3) {
    const int size = 1 << (tag - 0xd0);
    ++pos_;
    TRY_ASSIGN(const uint64_t bits, Big(size));
    const int unused = 64 - 8 * size;
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  TRY_ASSIGN(const uint64_t v, Uint());
  if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return Wrong("a smaller integer");
  return static_cast<int64_t>(v);
}

Result<uint64_t> MsgpackReader::Uint() {
  if (AtEnd()) return Wrong("an integer");
  const auto tag = std::to_integer<uint8_t>(bytes_[pos_]);
  if (tag < 0x80) {
    ++pos_;
    return uint64_t{tag};
  }
  if (tag >= 0xcc && tag <= 0xcf) {
    ++pos_;
    return Big(1 << (tag - 0xcc));
  }
  if (tag >= 0xd0 && tag <= 0xd3) {
    TRY_ASSIGN(const int64_t v, Int());
    if (v < 0) return Wrong("an integer that is not negative");
    return static_cast<uint64_t>(v);
  }
  return Wrong("an integer that is not negative");
}

Result<int32_t> MsgpackReader::Int32() {
  TRY_ASSIGN(const int64_t v, Int());
  if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max())
    return Wrong("a 32-bit integer");
  return static_cast<int32_t>(v);
}

Result<double> MsgpackReader::Double() {
  if (AtEnd()) return Wrong("a number");
  const auto tag = std::to_integer<uint8_t>(bytes_[pos_]);
  if (tag == 0xca) {
    ++pos_;
    TRY_ASSIGN(const uint64_t bits, Big(4));
    return double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
  }
  if (tag == 0xcb) {
    ++pos_;
    TRY_ASSIGN(const uint64_t bits, Big(8));
    return std::bit_cast<double>(bits);
  }
  if (tag == 0xcf) {
    TRY_ASSIGN(const uint64_t v, Uint());
    return static_cast<double>(v);
  }
  TRY_ASSIGN(const int64_t v, Int());
  return static_cast<double>(v);
}

// Length of a string, binary, array or map whose first byte is `tag`, just consumed.
Result<size_t> MsgpackReader::Length(uint8_t tag) {
  switch (tag) {
    case 0xc4:
    case 0xd9:
      return Big(1);
    case 0xc5:
    case 0xda:
    case 0xdc:
    case 0xde:
      return Big(2);
    case 0xc6:
    case 0xdb:
    case 0xdd:
    case 0xdf:
      return Big(4);
    default:
      return tag >= 0xa0 ? tag & 0x1f : tag & 0x0f;
  }
}

Result<std::string_view> MsgpackReader::Str() {
  const auto kind = Peek();
  if (!kind || *kind != Kind::kStr) return Wrong("a string");
  TRY_ASSIGN(const size_t size, Length(std::to_integer<uint8_t>(bytes_[pos_++])));
  TRY_ASSIGN(const auto raw, Take(size));
  return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
}

Result<std::span<const std::byte>> MsgpackReader::Bin() {
  const auto kind = Peek();
  if (!kind || *kind != Kind::kBin) return Wrong("bytes");
  TRY_ASSIGN(const size_t size, Length(std::to_integer<uint8_t>(bytes_[pos_++])));
  return Take(size);
}

Result<size_t> MsgpackReader::Array() {
  const auto kind = Peek();
  if (!kind || *kind != Kind::kArray) return Wrong("an array");
  TRY_ASSIGN(const size_t count, Length(std::to_integer<uint8_t>(bytes_[pos_++])));
  if (count > bytes_.size() - pos_) return Wrong("a shorter array");
  return count;
}

Result<size_t> MsgpackReader::Map() {
  const auto kind = Peek();
  if (!kind || *kind != Kind::kMap) return Wrong("a map");
  TRY_ASSIGN(const size_t count, Length(std::to_integer<uint8_t>(bytes_[pos_++])));
  if (count > (bytes_.size() - pos_) / 2) return Wrong("a shorter map");
  return count;
}

Status MsgpackReader::Skip(int max_depth) {
  TRY_ASSIGN(const Kind kind, Peek());
  switch (kind) {
    case Kind::kNil:
      return Nil();
    case Kind::kBool:
      TRY(Bool());
      return {};
    case Kind::kInt:
      if (bytes_[pos_] == std::byte{0xcf})
        TRY(Uint());
      else
        TRY(Int());
      return {};
    case Kind::kFloat:
      TRY(Double());
      return {};
    case Kind::kStr:
      TRY(Str());
      return {};
    case Kind::kBin:
      TRY(Bin());
      return {};
    case Kind::kExt: {
      const auto tag = std::to_integer<uint8_t>(bytes_[pos_++]);
      size_t size = 0;
      if (tag >= 0xd4) {
        size = size_t{1} << (tag - 0xd4);
      } else {
        TRY_ASSIGN(size, Big(1 << (tag - 0xc7)));
      }
      TRY(Take(size + 1));
      return {};
    }
    case Kind::kArray:
    case Kind::kMap: {
      if (max_depth <= 0) return Wrong("values nested less deeply");
      TRY_ASSIGN(size_t count, kind == Kind::kArray ? Array() : Map());
      if (kind == Kind::kMap) count *= 2;
      for (; count > 0; --count) TRY(Skip(max_depth - 1));
      return {};
    }
  }
  return {};
}

}  // namespace tandem::wire

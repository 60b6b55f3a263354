// MessagePack: a writer that appends and a reader that never looks beyond its bytes. The reader
// accepts every encoding of an integer that fits the asked type; floats are read from float32,
// float64 and integers. Nothing allocates more than the input's own size.
#ifndef TANDEM_WIRE_MSGPACK_H_
#define TANDEM_WIRE_MSGPACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::wire {

class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::vector<std::byte>& out) : out_(out) {}

  // Integers take the shortest encoding.
  void Nil() { Put(0xc0); }
  void Bool(bool v) { Put(v ? 0xc3 : 0xc2); }
  void Int(int64_t v);
  void Uint(uint64_t v);
  void Ints(std::span<const int32_t> v);  // an array
  void Float(float v);
  void Double(double v);
  void Str(std::string_view v);
  void Bin(std::span<const std::byte> v);
  // The caller then writes `count` values (twice as many for a map: key, value, key, ...).
  void Array(size_t count);
  void Map(size_t count);

 private:
  void Put(uint8_t byte) { out_.push_back(static_cast<std::byte>(byte)); }
  // The tag, then the lowest `bytes` bytes of `v`, highest first.
  void Put(uint8_t tag, uint64_t v, int bytes);
  void Append(const void* data, size_t size);

  std::vector<std::byte>& out_;
};

class MsgpackReader {
 public:
  enum class Kind { kNil, kBool, kInt, kFloat, kStr, kBin, kArray, kMap, kExt };

  explicit MsgpackReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return pos_ == bytes_.size(); }
  size_t position() const { return pos_; }
  // Kind of the next value, without consuming it. Errors are kCorrupt with the byte offset.
  Result<Kind> Peek() const;

  Status Nil();
  Result<bool> Bool();
  Result<int64_t> Int();
  Result<uint64_t> Uint();
  Result<int32_t> Int32();
  Result<double> Double();
  // Views into the input.
  Result<std::string_view> Str();
  Result<std::span<const std::byte>> Bin();
  // Number of elements or pairs. Never more than the rest of the input can hold (one byte per
  // element), so that a caller may reserve that many.
  Result<size_t> Array();
  Result<size_t> Map();
  // Skips one value of any kind, nested up to max_depth.
  Status Skip(int max_depth = 32);

 private:
  Result<uint64_t> Big(int bytes);
  Result<std::span<const std::byte>> Take(size_t size);
  Result<size_t> Length(uint8_t tag);
  std::unexpected<Error> Wrong(std::string_view wanted) const;

  std::span<const std::byte> bytes_;
  size_t pos_ = 0;
};

}  // namespace tandem::wire

#endif  // TANDEM_WIRE_MSGPACK_H_

// Any bytes as msgpack: reading never leaves the input and always ends.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "wire/msgpack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tandem::wire::MsgpackReader;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  MsgpackReader skipper(bytes);
  while (!skipper.AtEnd() && skipper.Skip()) {
  }
  MsgpackReader reader(bytes);
  while (!reader.AtEnd()) {
    const auto kind = reader.Peek();
    if (!kind) break;
    const size_t before = reader.position();
    bool good = false;
    switch (*kind) {
      case MsgpackReader::Kind::kNil:
        good = reader.Nil().has_value();
        break;
      case MsgpackReader::Kind::kBool:
        good = reader.Bool().has_value();
        break;
      case MsgpackReader::Kind::kInt:
        good = reader.Int().has_value();
        break;
      case MsgpackReader::Kind::kFloat:
        good = reader.Double().has_value();
        break;
      case MsgpackReader::Kind::kStr:
        good = reader.Str().has_value();
        break;
      case MsgpackReader::Kind::kBin:
        good = reader.Bin().has_value();
        break;
      case MsgpackReader::Kind::kArray:
        good = reader.Array().has_value();
        break;
      case MsgpackReader::Kind::kMap:
        good = reader.Map().has_value();
        break;
      case MsgpackReader::Kind::kExt:
        good = reader.Skip().has_value();
        break;
    }
    if (!good) break;
    CHECK(reader.position() > before && reader.position() <= size);
  }
  return 0;
}

#include "wire/msgpack.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tandem::wire {
namespace {

using Bytes = std::vector<std::byte>;

std::string HexOf(const Bytes& bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", std::to_integer<int>(b));
  return out;
}

template <class F>
std::string Written(F write) {
  Bytes out;
  MsgpackWriter writer(out);
  write(writer);
  return HexOf(out);
}

TEST(Msgpack, WritesShortestForms) {
  EXPECT_EQ(Written([](auto& w) { w.Int(5); }), "05");
  EXPECT_EQ(Written([](auto& w) { w.Int(-1); }), "ff");
  EXPECT_EQ(Written([](auto& w) { w.Int(-33); }), "d0df");
  EXPECT_EQ(Written([](auto& w) { w.Int(200); }), "ccc8");
  EXPECT_EQ(Written([](auto& w) { w.Int(-40000); }), "d2ffff63c0");
  EXPECT_EQ(Written([](auto& w) { w.Uint(UINT64_MAX); }), "cfffffffffffffffff");
  EXPECT_EQ(Written([](auto& w) { w.Str("ab"); }), "a26162");
  EXPECT_EQ(Written([](auto& w) { w.Array(16); }), "dc0010");
  EXPECT_EQ(Written([](auto& w) { w.Map(1); }), "81");
  EXPECT_EQ(Written([](auto& w) { w.Float(1.5f); }), "ca3fc00000");
}

TEST(Msgpack, ReadsBackEveryWidth) {
  for (const int64_t v :
       {int64_t{0}, int64_t{-1}, int64_t{-32}, int64_t{-33}, int64_t{-129}, int64_t{-32769},
        int64_t{127}, int64_t{128}, int64_t{255}, int64_t{256}, int64_t{65536}, int64_t{1} << 40,
        std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    Bytes out;
    MsgpackWriter(out).Int(v);
    MsgpackReader reader(out);
    EXPECT_EQ(reader.Int().value(), v);
    EXPECT_TRUE(reader.AtEnd());
    MsgpackReader again(out);
    EXPECT_TRUE(again.Skip().has_value());
    EXPECT_TRUE(again.AtEnd());
  }
  for (const size_t size : {0, 31, 32, 255, 256, 70000}) {
    Bytes out;
    MsgpackWriter(out).Str(std::string(size, 'x'));
    MsgpackWriter(out).Bin(Bytes(size));
    MsgpackReader reader(out);
    EXPECT_EQ(reader.Str().value().size(), size);
    EXPECT_EQ(reader.Bin().value().size(), size);
    EXPECT_TRUE(reader.AtEnd());
  }
}

TEST(Msgpack, ListsOfNumbersAreTheirNumbers) {
  for (const size_t size : {0, 15, 16, 101, 102, 103, 400, 70000}) {
    std::vector<int32_t> numbers;
    for (size_t i = 0; i < size; ++i) {
      constexpr int32_t kSome[] = {0,         127,       128,   255,    256,    65535,
                                   65536,     -1,        -32,   -33,    -40000, 1 << 30,
                                   INT32_MIN, INT32_MAX, 49151, 128000, 20000,  1000};
      numbers.push_back(kSome[i * i % std::size(kSome)]);
    }
    const std::string listed = Written([&](auto& w) { w.Ints(numbers); });
    const std::string one_by_one = Written([&](auto& w) {
      w.Array(numbers.size());
      for (const int32_t number : numbers) w.Int(number);
    });
    EXPECT_EQ(listed, one_by_one) << size;
  }
}

TEST(Msgpack, RefusesWhatTheInputCannotHold) {
  const auto reader_of = [](std::initializer_list<uint8_t> raw, Bytes& keep) {
    keep.clear();
    for (const uint8_t b : raw) keep.push_back(std::byte{b});
    return MsgpackReader(keep);
  };
  Bytes keep;
  EXPECT_FALSE(reader_of({0xdd, 0xff, 0xff, 0xff, 0xff}, keep).Array().has_value());
  EXPECT_FALSE(reader_of({0xdf, 0, 0, 0, 2, 1, 1, 1}, keep).Map().has_value());
  EXPECT_FALSE(reader_of({0xdb, 0xff, 0xff, 0xff, 0xff, 1}, keep).Str().has_value());
  EXPECT_FALSE(reader_of({0xcd, 1}, keep).Int().has_value());
  EXPECT_FALSE(reader_of({0xc1}, keep).Skip().has_value());
  EXPECT_FALSE(reader_of({0xd0, 0xff}, keep).Uint().has_value());
  EXPECT_FALSE(reader_of({0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0}, keep).Int().has_value());
  EXPECT_FALSE(reader_of({0xce, 0x80, 0, 0, 0}, keep).Int32().has_value());
  EXPECT_FALSE(reader_of({}, keep).Peek().has_value());
  Bytes deep(100, std::byte{0x91});
  deep.push_back(std::byte{0xc0});
  EXPECT_FALSE(MsgpackReader(deep).Skip(32).has_value());
  EXPECT_TRUE(MsgpackReader(deep).Skip(100).has_value());
}

TEST(Msgpack, SkipsEveryKind) {
  Bytes out;
  MsgpackWriter writer(out);
  writer.Map(2);
  writer.Str("k");
  writer.Array(3);
  writer.Nil();
  writer.Bool(true);
  writer.Double(2.5);
  writer.Uint(UINT64_MAX);
  writer.Bin(Bytes(3));
  // fixext 2 and ext 8.
  for (const int b : {0xd5, 0x01, 0xaa, 0xbb, 0xc7, 0x01, 0x05, 0xcc})
    out.push_back(static_cast<std::byte>(b));
  MsgpackReader reader(out);
  EXPECT_TRUE(reader.Skip().has_value());
  EXPECT_TRUE(reader.Skip().has_value());
  EXPECT_TRUE(reader.Skip().has_value());
  EXPECT_TRUE(reader.AtEnd());
}

}  // namespace
}  // namespace tandem::wire

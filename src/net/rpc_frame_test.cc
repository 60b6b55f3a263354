#include "net/rpc_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/hash.h"

namespace tandem::net {
namespace {

Bytes BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

std::string HexOf(const Bytes& bytes) {
  return Hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// Feeds `piece` bytes at a time and lists the frames as "type/stream/size ".
std::string ReadAll(const Bytes& bytes, size_t piece, size_t limit) {
  FrameReader reader(limit);
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const std::span<std::byte> space = reader.Space();
    const size_t count = std::min({piece, space.size(), bytes.size() - at});
    std::memcpy(space.data(), bytes.data() + at, count);
    reader.Commit(count);
    at += count;
    for (;;) {
      const auto frame = reader.Next();
      if (!frame) return out + "error";
      if (!frame->has_value()) break;
      out += fmt::format("{}/{}/{} ", static_cast<int>((*frame)->type), (*frame)->stream,
                         (*frame)->body.size());
    }
  }
  return out;
}

TEST(RpcFrame, TheReaderCutsFramesHoweverTheyArrive) {
  Bytes bytes;
  AppendFrame(bytes, FrameType::kData, 7, BytesOf("hello"));
  AppendFrame(bytes, FrameType::kPing, 0);
  AppendFrame(bytes, FrameType::kData, 8, Bytes(100000));
  AppendCredit(bytes, 9, 1234);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, bytes.size()})
    EXPECT_EQ(ReadAll(bytes, piece, 100000), "3/7/5 7/0/0 3/8/100000 4/9/4 ") << piece;
  EXPECT_EQ(ReadAll(bytes, 4096, 99999), "3/7/5 7/0/0 error");
}

TEST(RpcFrame, TheReaderDoesNotAllocateWhatALengthPromises) {
  FrameReader reader(1u << 30);
  const auto space = reader.Space();
  std::memset(space.data(), 0x3f, 9);  // a body of about 1 GiB
  reader.Commit(9);
  const auto frame = reader.Next();
  ASSERT_TRUE(frame);
  EXPECT_FALSE(frame->has_value());
  EXPECT_LT(reader.Space().size(), 100000u);
}

// The bytes of version 1.0. A change that breaks this breaks running clusters.
TEST(RpcFrame, GoldenBytes) {
  Bytes open;
  const Bytes payload = BytesOf("xy");
  AppendOpen(open, 5, {"generate", "id-1", 600000, payload});
  EXPECT_EQ(HexOf(open),
            "3f000000020500000084a66d6574686f64a867656e6572617465aa726571756573745f6964a469642d31"
            "ac72656d61696e696e675f6d73ce000927c0a77061796c6f6164c4027879");
  Bytes end;
  AppendEnd(end, 5, Err(Code::kOverloaded, "full"));
  EXPECT_EQ(HexOf(end), "1b000000050500000083a4636f646505a76d657373616765a466756c6ca5706172616da0");
  Bytes credit;
  AppendCredit(credit, 258, 65536);
  EXPECT_EQ(HexOf(credit),
            "040000000402010000"
            "00000100");
}

std::span<const std::byte> Body(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

TEST(RpcFrame, BodiesRoundTrip) {
  Bytes hello;
  AppendHello(hello, 1000);
  const auto parsed = ParseHello(Body(hello));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->major, kRpcMajor);
  EXPECT_EQ(parsed->window, 1000u);
  EXPECT_FALSE(parsed->build.empty());

  Bytes open;
  AppendOpen(open, 1, {"m", "", std::nullopt, {}});
  const auto opened = ParseOpen(Body(open));
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->method, "m");
  EXPECT_FALSE(opened->remaining_ms);

  Bytes end;
  AppendEnd(end, 1, FieldErr("top_p", "must be at most 1"));
  const auto ended = ParseEnd(Body(end));
  ASSERT_TRUE(ended);
  ASSERT_FALSE(ended->status);
  EXPECT_EQ(ended->status.error().param, "top_p");
  end.clear();
  AppendEnd(end, 1, Status());
  EXPECT_TRUE(ParseEnd(Body(end))->status);
}

TEST(RpcFrame, UnknownFieldsAreIgnoredAndUnknownCodesAreInternal) {
  // {"future": [1, 2], "code": 999, "message": "new"}
  const Bytes body = BytesOf(
      "\x83\xa6"
      "future\x92\x01\x02\xa4"
      "code\xcd\x03\xe7\xa7"
      "message\xa3new");
  const auto end = ParseEnd(body);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->status.error().code, Code::kInternal);
  EXPECT_EQ(end->status.error().message, "new");
}

TEST(RpcFrame, DamagedBodiesAreErrors) {
  EXPECT_FALSE(ParseHello({}));
  EXPECT_FALSE(ParseHello(BytesOf("\x80")));
  EXPECT_FALSE(ParseHello(BytesOf("GET / HTTP/1.1")));
  EXPECT_FALSE(ParseOpen(BytesOf("\x81\xa6method\x01")));
  EXPECT_FALSE(ParseOpen(BytesOf("\xdf\xff\xff\xff\xff")));
  EXPECT_FALSE(ParseCredit(BytesOf("123")));
  EXPECT_FALSE(
      ParseEnd(BytesOf("\x81\xa4"
                       "code")));
}

}  // namespace
}  // namespace tandem::net

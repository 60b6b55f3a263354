#include "xfer/side_channel.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "base/hash.h"
#include "base/source_dir.h"

namespace tandem::xfer {
namespace {

KvIdentity SomeIdentity() {
  KvIdentity id;
  id.model_digest = "abc123";
  id.layout_id = "kv1-f16-l2-h3-d64-b16";
  id.dtype = "f16";
  id.block_tokens = 16;
  id.block_bytes = 24576;
  id.numerics_id = "avx2-f16-k1";
  return id;
}

Hello SomeHello() {
  Hello m;
  m.build = "tandem 0.1.0";
  m.identity = SomeIdentity();
  m.engine_id = "decode-1";
  return m;
}

Welcome SomeWelcome() {
  Welcome m;
  m.build = "tandem 0.1.0";
  m.identity = SomeIdentity();
  m.engine_id = "prefill-1";
  m.incarnation = 0x1122334455667788;
  m.blocks = 4096;
  m.lease_ms = 30000;
  m.shm_address = "unix:@tandem-kv-1-2";
  m.shm_token = 0xa1b2c3d4e5f60718;
  return m;
}

// One of each message, by name.
std::map<std::string, Frame> AllFrames() {
  std::map<std::string, Frame> frames;
  frames["hello"] = Encode(SomeHello());
  frames["welcome"] = Encode(SomeWelcome());
  frames["error"] = Encode(Error{Code::kStale, "the lease ended", {}});
  frames["open"] = Encode(OpenRequest{5, 6, true, {{3, 11}, {4, 0x100000000}}});
  frames["opened"] = Encode(Opened{77});
  frames["close"] = Encode(CloseRequest{77, true});
  frames["closed"] = Encode(Closed{kv::CloseAnswer::kValid});
  frames["heartbeat"] = Encode(Heartbeat{{5, 9}});
  frames["heartbeat_ack"] = Encode(HeartbeatAck{1});
  frames["release"] = Encode(ReleaseRequest{5});
  frames["released"] = Encode(Released{true});
  frames["data_header"] = EncodeDataHeader(65536);
  return frames;
}

std::span<const std::byte> BodyOf(const Frame& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

std::string HexOf(const Frame& frame) {
  return Hex({reinterpret_cast<const uint8_t*>(frame.data()), frame.size()});
}

// Frames of a released version never change: peers of that version are out there.
TEST(SideChannelTest, FramesAreThoseOfVersionOne) {
  std::ifstream file(std::string(kSourceDir) + "/tests/goldens/xfer/side_channel_1_0.txt");
  ASSERT_TRUE(file.good());
  std::map<std::string, std::string> golden;
  for (std::string line; std::getline(file, line);) {
    std::stringstream fields(line);
    std::string name, hex;
    fields >> name >> hex;
    if (!name.empty() && name[0] != '#') golden[name] = hex;
  }
  std::map<std::string, std::string> now;
  for (const auto& [name, frame] : AllFrames()) now[name] = HexOf(frame);
  EXPECT_EQ(now, golden);
}

TEST(SideChannelTest, RoundTrips) {
  const auto hello = Decode<Hello>(BodyOf(Encode(SomeHello()))).value();
  EXPECT_EQ(hello.identity, SomeIdentity());
  EXPECT_EQ(hello.engine_id, "decode-1");
  const auto welcome = Decode<Welcome>(BodyOf(Encode(SomeWelcome()))).value();
  EXPECT_EQ(welcome.incarnation, SomeWelcome().incarnation);
  EXPECT_EQ(welcome.blocks, 4096u);
  EXPECT_EQ(welcome.shm_address, SomeWelcome().shm_address);
  EXPECT_EQ(welcome.shm_token, SomeWelcome().shm_token);
  const auto open = Decode<OpenRequest>(BodyOf(AllFrames()["open"])).value();
  EXPECT_EQ(open.lease, 5u);
  EXPECT_TRUE(open.stream);
  EXPECT_EQ(open.blocks, (std::vector<kv::BlockRef>{{3, 11}, {4, 0x100000000}}));
  const auto error = Decode<Error>(BodyOf(AllFrames()["error"])).value();
  EXPECT_EQ(error.code, Code::kStale);
  EXPECT_EQ(error.message, "the lease ended");
  EXPECT_EQ(Decode<Closed>(BodyOf(AllFrames()["closed"])).value().answer, kv::CloseAnswer::kValid);
  EXPECT_TRUE(Decode<CloseRequest>(BodyOf(AllFrames()["close"])).value().release);
  EXPECT_EQ(Decode<Heartbeat>(BodyOf(AllFrames()["heartbeat"])).value().leases,
            (std::vector<kv::LeaseId>{5, 9}));
}

TEST(SideChannelTest, OnlyOneByteSaysValid) {
  for (int value = 0; value < 256; ++value) {
    const std::byte body[] = {static_cast<std::byte>(value)};
    const auto closed = Decode<Closed>(body).value();
    EXPECT_EQ(closed.answer == kv::CloseAnswer::kValid, value == 1);
  }
}

TEST(SideChannelTest, LaterFieldsAreIgnored) {
  Frame frame = Encode(SomeWelcome());
  frame.resize(frame.size() + 9, std::byte{0xee});
  EXPECT_EQ(Decode<Welcome>(BodyOf(frame)).value().shm_token, SomeWelcome().shm_token);
}

TEST(SideChannelTest, AnotherMajorVersionIsReadUpToItsNumber) {
  Hello hello = SomeHello();
  hello.major = 2;
  Frame frame = Encode(hello);
  frame.resize(kFrameHeaderBytes + 4 + 2 + 2 + 2 + hello.build.size());
  EXPECT_EQ(Decode<Hello>(BodyOf(frame)).value().major, 2);
}

TEST(SideChannelTest, TruncatedMessagesAreCorrupt) {
  const auto frames = AllFrames();
  const auto cut = [&]<class T>(const std::string& name, std::type_identity<T>) {
    const auto body = BodyOf(frames.at(name));
    for (size_t n = 0; n < body.size(); ++n) {
      const auto got = Decode<T>(body.first(n));
      ASSERT_FALSE(got.has_value()) << name << " cut to " << n;
      EXPECT_EQ(got.error().code, Code::kCorrupt);
    }
  };
  cut("hello", std::type_identity<Hello>());
  cut("welcome", std::type_identity<Welcome>());
  cut("error", std::type_identity<Error>());
  cut("open", std::type_identity<OpenRequest>());
  cut("opened", std::type_identity<Opened>());
  cut("close", std::type_identity<CloseRequest>());
  cut("closed", std::type_identity<Closed>());
  cut("heartbeat", std::type_identity<Heartbeat>());
  cut("heartbeat_ack", std::type_identity<HeartbeatAck>());
  cut("release", std::type_identity<ReleaseRequest>());
  cut("released", std::type_identity<Released>());
}

TEST(SideChannelTest, RandomBytesDoNoHarm) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> body(random() % 64);
    for (std::byte& b : body) b = static_cast<std::byte>(random());
    // Counts near the limits of their type are what breaks careless decoders.
    if (body.size() > 24 && random() % 2 == 0) {
      for (size_t i = 16; i < 22; ++i) body[i] = std::byte{0xff};
    }
    (void)Decode<Hello>(body);
    (void)Decode<Welcome>(body);
    (void)Decode<Error>(body);
    (void)Decode<OpenRequest>(body);
    (void)Decode<Heartbeat>(body);
    (void)Decode<CloseRequest>(body);
  }
}

TEST(SideChannelTest, HeadersAreBounded) {
  const auto code = [](uint32_t size, uint8_t type) {
    std::array<std::byte, kFrameHeaderBytes> bytes{};
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(size >> (8 * i));
    bytes[4] = static_cast<std::byte>(type);
    const auto header = DecodeHeader(bytes);
    return header.has_value() ? Code::kOk : header.error().code;
  };
  EXPECT_EQ(code(10, 4), Code::kOk);
  EXPECT_EQ(code(0xffffffff, 4), Code::kCorrupt);
  EXPECT_EQ(code(kMaxDataBytes, 6), Code::kOk);
  EXPECT_EQ(code(kMaxDataBytes + 1, 6), Code::kCorrupt);
  EXPECT_EQ(code(1, 0), Code::kCorrupt);
  EXPECT_EQ(code(1, 13), Code::kCorrupt);
}

TEST(IdentityTest, NamesTheFieldAndBothValues) {
  const KvIdentity ours = SomeIdentity();
  EXPECT_TRUE(CheckCompatible(ours, ours).has_value());
  KvIdentity other = ours;
  other.numerics_id = "avx512";
  EXPECT_TRUE(CheckCompatible(ours, other).has_value()) << "works, with a warning elsewhere";
  const auto expect_refused = [&](const KvIdentity& theirs, std::string_view field,
                                  std::string_view value) {
    const Status status = CheckCompatible(ours, theirs);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kIncompatible);
    EXPECT_NE(status.error().message.find(field), std::string::npos);
    EXPECT_NE(status.error().message.find(value), std::string::npos);
  };
  other = ours;
  other.model_digest = "other-model";
  expect_refused(other, "model digest", "other-model");
  other = ours;
  other.dtype = "f32";
  expect_refused(other, "dtype", "f32");
  other = ours;
  other.block_tokens = 32;
  expect_refused(other, "block size", "32");
  other = ours;
  other.layout_id = "kv2";
  expect_refused(other, "layout", "kv2");
  other = ours;
  other.block_bytes = 1;
  expect_refused(other, "bytes per block", "24576");
}

}  // namespace
}  // namespace tandem::xfer

#include "model/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "model/gguf_builder.h"

namespace tandem::model {
namespace {

std::string ParseError(const GgufBuilder& builder) {
  const std::vector<std::byte> file = builder.Build();
  const Result<GgufView> view = GgufView::Parse(file, "m.gguf");
  return view ? "" : view.error().message;
}

void ExpectError(const GgufBuilder& builder, std::string_view part) {
  const std::string message = ParseError(builder);
  EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
  EXPECT_NE(message.find("m.gguf"), std::string::npos) << message;
}

TEST(Gguf, ValuesOfEveryType) {
  GgufBuilder builder;
  builder.Scalar("u8", GgufType::kUint8, uint8_t{200})
      .Scalar("i8", GgufType::kInt8, int8_t{-5})
      .Scalar("u16", GgufType::kUint16, uint16_t{60000})
      .Scalar("i16", GgufType::kInt16, int16_t{-300})
      .U32("u32", 4000000000U)
      .Scalar("i32", GgufType::kInt32, int32_t{-7})
      .F32("f32", 0.5F)
      .Scalar("bool", GgufType::kBool, uint8_t{1})
      .String("string", "hello")
      .Scalar("u64", GgufType::kUint64, ~uint64_t{0})
      .Scalar("i64", GgufType::kInt64, int64_t{-9})
      .Scalar("f64", GgufType::kFloat64, 0.25)
      .Strings("strings", {"a", "", "ccc"})
      .Array("ints", GgufType::kInt32, std::vector<int32_t>{1, -2, 3})
      .Array("floats", GgufType::kFloat32, std::vector<float>{1.5F, -2.5F});
  // An array that holds one array of one u32.
  builder.ArrayHeader("nested", GgufType::kArray, 1).Raw32(4).Raw64(1).Raw32(7);
  const std::vector<std::byte> file = builder.Build();
  const Result<GgufView> view = GgufView::Parse(file, "m.gguf");
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->Find("nested")->bytes.size(), 16U);
  EXPECT_EQ(view->Uint("u8"), 200U);
  EXPECT_EQ(view->Int("i8"), -5);
  EXPECT_EQ(view->Uint("u16"), 60000U);
  EXPECT_EQ(view->Int("i16"), -300);
  EXPECT_EQ(view->Uint("u32"), 4000000000U);
  EXPECT_EQ(view->Int("i32"), -7);
  EXPECT_EQ(view->Float("f32"), 0.5);
  EXPECT_EQ(view->Bool("bool"), true);
  EXPECT_EQ(view->String("string"), "hello");
  EXPECT_EQ(view->Uint("u64"), ~uint64_t{0});
  EXPECT_EQ(view->Int("i64"), -9);
  EXPECT_EQ(view->Float("f64"), 0.25);
  EXPECT_EQ(view->Float("i64"), -9.0);
  EXPECT_EQ(view->Strings("strings"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(view->Ints("ints"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(view->Floats("floats"), (std::vector<float>{1.5F, -2.5F}));
  // Absent, and of another type.
  EXPECT_EQ(view->Uint("absent", 3), 3U);
  EXPECT_NE(view->Uint("absent").error().message.find("'absent' is missing"), std::string::npos);
  EXPECT_NE(view->Uint("i8").error().message.find("no negative"), std::string::npos);
  EXPECT_NE(view->Int("u64").error().message.find("too large"), std::string::npos);
  EXPECT_NE(view->Bool("u8").error().message.find("uint8, expected a bool"), std::string::npos);
  EXPECT_NE(view->Uint("strings").error().message.find("array of 3 string"), std::string::npos);
  EXPECT_FALSE(view->Strings("ints"));
  EXPECT_FALSE(view->Ints("floats"));
  EXPECT_FALSE(view->Floats("string"));
}

TEST(Gguf, Tensors) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.U32("general.alignment", 64);
  builder.Matrix("a", 8, 3).Tensor("b", {32, 2, 2}, 8, 4 * 34).Tensor("c", {5}, 1, 10);
  const std::vector<std::byte> file = builder.Build();
  const Result<GgufView> view = GgufView::Parse(file, "m.gguf");
  ASSERT_TRUE(view) << view.error().message;
  ASSERT_EQ(view->tensors().size(), 3U);
  const Tensor* tensor = view->FindTensor("b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, TensorType::kQ8_0);
  EXPECT_EQ(tensor->Inputs(), 32);
  EXPECT_EQ(tensor->Rows(), 4);
  EXPECT_EQ(tensor->bytes.size(), 136U);
  EXPECT_EQ((tensor->bytes.data() - file.data()) % 64, 0);
  EXPECT_EQ(view->FindTensor("c")->Rows(), 1);
  EXPECT_EQ(view->FindTensor("d"), nullptr);
}

TEST(Gguf, HeadersThatCannotBe) {
  const auto with = [](auto change) {
    GgufBuilder builder;
    change(builder);
    return builder;
  };
  ExpectError(with([](GgufBuilder& b) { b.magic = 0x46464952; }), "not a GGUF file");
  ExpectError(with([](GgufBuilder& b) { b.version = 1; }), "version 1 is not supported");
  ExpectError(with([](GgufBuilder& b) { b.version = 4; }), "version 4 is not supported");
  ExpectError(with([](GgufBuilder& b) { b.version = 0x03000000; }), "big-endian");
  ExpectError(with([](GgufBuilder& b) { b.extra_keys = 1; }), "key count 1 cannot be");
  ExpectError(with([](GgufBuilder& b) { b.extra_keys = -1; }), "key count 18446744073709551615");
  ExpectError(with([](GgufBuilder& b) { b.extra_tensors = int64_t{1} << 60; }), "tensor count");
  EXPECT_EQ(ParseError(with([](GgufBuilder& b) { b.version = 2; })), "");
}

TEST(Gguf, KeysThatCannotBe) {
  ExpectError(GgufBuilder().U32("a", 1).U32("a", 2), "key 'a' appears twice");
  ExpectError(GgufBuilder().Scalar("a", static_cast<GgufType>(13), uint64_t{0}),
              "key 'a' has unknown value type 13");
  ExpectError(GgufBuilder().ArrayHeader("a", GgufType::kFloat64, uint64_t{1} << 61),
              "claims 2305843009213693952 elements");
  ExpectError(GgufBuilder().ArrayHeader("a", GgufType::kString, ~uint64_t{0}),
              "truncated: key 'a'");
  ExpectError(GgufBuilder().ArrayHeader("a", static_cast<GgufType>(99), 1),
              "unknown value type 99");
  GgufBuilder deep;
  deep.ArrayHeader("a", GgufType::kArray, 1);
  for (int i = 0; i < 5; ++i) deep.Raw32(9).Raw64(1);
  ExpectError(deep, "nests arrays deeper");
  ExpectError(GgufBuilder().U32("general.alignment", 48), "general.alignment is 48");
  ExpectError(GgufBuilder().U32("general.alignment", 0), "general.alignment is 0");
  ExpectError(GgufBuilder().String("general.alignment", "x"), "general.alignment");
  ExpectError(GgufBuilder().U32(std::string(2000, 'x'), 1), "has length 2000");
  // What the file calls itself cannot disturb a terminal.
  ExpectError(GgufBuilder().U32("\x1b[2J\n", 1).U32("\x1b[2J\n", 2), "\\x1b[2J\\x0a");
}

TEST(Gguf, TensorsThatCannotBe) {
  ExpectError(GgufBuilder().Matrix("a", 8, 1).Matrix("a", 8, 1), "tensor a appears twice");
  ExpectError(GgufBuilder().Tensor("a", {}, 0, 32), "has 0 dimensions");
  ExpectError(GgufBuilder().Tensor("a", {1, 1, 1, 1, 1}, 0, 32), "has 5 dimensions");
  ExpectError(GgufBuilder().Tensor("a", {8, 0}, 0, 32), "dimension 1 of size 0");
  ExpectError(GgufBuilder().Tensor("a", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 32),
              "cannot hold");
  ExpectError(GgufBuilder().Tensor("a", {33}, 8, 34), "not a multiple of Q8_0's block of 32");
  ExpectError(GgufBuilder().Tensor("blk.0.x", {256}, 20, 144),
              "tensor blk.0.x has type IQ4_NL, which is not supported (supported: F32, F16");
  ExpectError(GgufBuilder().Tensor("a", {256}, 23, 136), "type IQ4_XS");
  ExpectError(GgufBuilder().Tensor("a", {32}, 39, 17), "type MXFP4");
  ExpectError(GgufBuilder().Tensor("a", {256}, 77, 144), "type 77");
  ExpectError(GgufBuilder().Tensor("a", {8}, 0, 32, 16), "offset 16, not a multiple");
  ExpectError(GgufBuilder().Tensor("blk.3.ffn_up.weight", {8, 4}, 0, 96),
              "truncated: tensor blk.3.ffn_up.weight of 128 bytes");
  ExpectError(GgufBuilder().Tensor("a", {8}, 0, 32, ~uint64_t{31}), "truncated: tensor a");
}

GgufBuilder SmallFile() {
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .Strings("tokenizer.ggml.tokens", {"a", "bb"})
      .Array("tokenizer.ggml.token_type", GgufType::kInt32, std::vector<int32_t>{1, 1})
      .Matrix("token_embd.weight", 8, 2);
  return builder;
}

TEST(Gguf, EveryTruncationIsNoticed) {
  const size_t size = SmallFile().Build().size();
  for (size_t cut = 1; cut <= size; ++cut) {
    GgufBuilder builder = SmallFile();
    builder.cut = cut;
    const std::vector<std::byte> file = builder.Build();
    EXPECT_FALSE(GgufView::Parse(file, "m.gguf")) << cut << " bytes cut";
  }
}

TEST(Gguf, NoChangedByteEscapesTheFile) {
  const std::vector<std::byte> good = SmallFile().Build();
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::vector<std::byte> file = good;
      file[at] = static_cast<std::byte>(value);
      const Result<GgufView> view = GgufView::Parse(file, "m.gguf");
      if (!view) continue;
      for (const Tensor& tensor : view->tensors()) {
        ASSERT_GE(tensor.bytes.data(), file.data());
        ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), file.data() + file.size());
      }
    }
  }
}

TEST(GgufFile, OpensOnlyRegularFiles) {
  EXPECT_EQ(GgufFile::Open("/nowhere/x.gguf").error().code, Code::kNotFound);
  EXPECT_NE(GgufFile::Open("/tmp").error().message.find("not a regular file"), std::string::npos);
  const std::string path = testing::TempDir() + std::to_string(getpid()) + "-small.gguf";
  std::ofstream(path, std::ios::binary).close();
  EXPECT_NE(GgufFile::Open(path).error().message.find("is empty"), std::string::npos);
  const std::vector<std::byte> bytes = SmallFile().Build();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->bytes().size(), bytes.size());
  EXPECT_EQ((*file)->view().Strings("tokenizer.ggml.tokens")->size(), 2U);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tandem::model

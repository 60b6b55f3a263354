// safetensors headers that lie, and folders whose parts do not fit together.
#include "model/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/checkpoint.h"
#include "model/test_model.h"
#include "model/weight_layout.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

std::string FileOf(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + std::string(data, '\1');
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string ErrorOf(const std::string& file) {
  const auto view = SafetensorsView::Parse(BytesOf(file), "m.safetensors");
  return view ? "" : view.error().message;
}

void ExpectError(const std::string& file, const std::string& part) {
  const std::string message = ErrorOf(file);
  EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
}

TEST(Safetensors, GivesTensorsFastestDimensionFirst) {
  const std::string file = FileOf(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[16,24]},)"
      R"("c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      24);
  const auto view = SafetensorsView::Parse(BytesOf(file), "m.safetensors");
  ASSERT_TRUE(view) << view.error().message;
  ASSERT_EQ(view->tensors().size(), 2U);
  const Tensor& a = view->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, TensorType::kBF16);
  EXPECT_EQ(a.dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(reinterpret_cast<const char*>(a.bytes.data()), file.data() + file.size() - 20);
  EXPECT_EQ(a.bytes.size(), 12U);
  ASSERT_EQ(view->unsupported().size(), 1U);
  EXPECT_EQ(view->unsupported()[0].type, "I64");
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  ExpectError("1234567", "7 bytes are too few");
  ExpectError(FileOf("{}", 0).substr(0, 9), "cut off");
  ExpectError(std::string(8, '\xFF') + "{}", "cut off");
  ExpectError(FileOf("{\"a\":", 8), "not a JSON object");
  ExpectError(FileOf("[]", 8), "not a JSON object");
  const auto entry = [](const std::string& members) {
    return FileOf("{\"w\":{" + members + "}}", 16);
  };
  ExpectError(entry(R"("shape":[2],"data_offsets":[0,8])"), "tensor w has no \"dtype\"");
  ExpectError(entry(R"("dtype":"F32","data_offsets":[0,8])"), "tensor w has no \"shape\"");
  ExpectError(entry(R"("dtype":"F32","shape":[2])"), "tensor w has no two \"data_offsets\"");
  ExpectError(entry(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), "out of range");
  ExpectError(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "out of range");
  ExpectError(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
              "out of range");
  ExpectError(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,12])"),
              "tensor w has 12 bytes of data, its shape needs 2 values of F32");
  ExpectError(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "tensor w has");
  ExpectError(entry(R"("dtype":"F32","shape":[4],"data_offsets":[8,24])"),
              "tensor w has \"data_offsets\" 8 to 24, the file has 16 bytes of data");
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / fmt::format("checkpoint_test-{}", getpid());
    fs::remove_all(folder_);
    fs::copy(CachedModel("families/qwen2-f32"), folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Replaces the first `from` of a file; both have the same length in a binary one.
  void Change(const std::string& name, const std::string& from, const std::string& to) {
    std::string text;
    {
      std::ifstream in(folder_ / name, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::string LoadError(const std::string& overrides = "") {
    const auto checkpoint = Checkpoint::Open(folder_.string(), overrides);
    if (!checkpoint) return checkpoint.error().message;
    const auto layout = LayOutWeights(**checkpoint);
    return layout ? "" : layout.error().message;
  }
  void ExpectLoadError(const std::string& part, const std::string& overrides = "") {
    const std::string message = LoadError(overrides);
    EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
  }

  fs::path folder_;
};

TEST_F(CheckpointTest, TensorsMustBeThoseOfTheFamily) {
  EXPECT_EQ(LoadError(), "");
  Change("model.safetensors", "layers.1.mlp.up_proj.weight", "layers.1.mlp.no_proj.weight");
  ExpectLoadError("tensor blk.1.ffn_up.weight is missing");
  Change("model.safetensors", "layers.1.mlp.no_proj.weight", "layers.1.mlp.up_proj.weight");
  Change("model.safetensors", "self_attn.q_proj.bias", "self_attn.q_proj.bent");
  ExpectLoadError("q_proj.bent is not part of the supported form of architecture 'qwen2'");
}

TEST_F(CheckpointTest, TypesAndShapesMustFit) {
  Change("model.safetensors", R"("model.norm.weight":{"dtype":"F32")",
         R"("model.norm.weight":{"dtype":"I32")");
  ExpectLoadError("output_norm.weight has type I32, which is not supported");
  Change("config.json", R"("intermediate_size": 112)", R"("intermediate_size": 128)");
  ExpectLoadError("ffn_gate.weight is 64 x 112, expected 64 x 128");
}

TEST_F(CheckpointTest, WhatConfigJsonSaysIsChecked) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"model_type": "mamba"})", "model type 'mamba' is not supported by the native engine"},
      {R"({"hidden_size": 0})", "'hidden_size' is 0, possible is 1 to"},
      {R"({"hidden_size": "64"})", "'hidden_size' is \"64\", possible is"},
      {R"({"num_hidden_layers": 5000})", "'num_hidden_layers' is 5000"},
      {R"({"num_key_value_heads": 3})", "4 attention heads cannot share 3"},
      {R"({"rope_scaling": {"rope_type": "bent"}})", "rope scaling 'bent' is not supported"},
      {R"({"rope_scaling": {"rope_type": "linear"}})", "'factor' is missing"},
      {R"({"hidden_act": "relu"})", "activation 'relu' is not supported"},
      {R"({"layer_types": ["full_attention", "linear_attention", "full_attention"]})",
       "layer type 'linear_attention' of layer 1"},
      {"[1]", "--hf-overrides is not a JSON object"},
  };
  for (const auto& [overrides, part] : cases) ExpectLoadError(part, overrides);
  std::ofstream(folder_ / "config.json") << "{";
  ExpectLoadError("config.json is not a JSON object");
}

TEST_F(CheckpointTest, DigestsFollowTheDescriptionToo) {
  const auto digest = [&](const std::string& overrides) {
    return (*Checkpoint::Open(folder_.string(), overrides))->Digest("").value_or("");
  };
  EXPECT_EQ(digest(""), digest(""));
  EXPECT_EQ(digest("").size(), 64U);
  EXPECT_NE(digest(""), digest(R"({"rope_theta": 5000.0})"));
}

}  // namespace
}  // namespace tandem::model

// Test support: random weights in every tensor type and whole random Llama models as GGUF bytes,
// made in memory. The numbers only have to be harmless: finite, and small enough for attention to
// mean something.
#ifndef TANDEM_MODEL_TINY_GGUF_H_
#define TANDEM_MODEL_TINY_GGUF_H_

#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/float16.h"
#include "model/tensor_types.h"

namespace tandem::model {

inline constexpr TensorType kAllTypes[] = {
    TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ4_0, TensorType::kQ4_1,
    TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ2_K, TensorType::kQ3_K,
    TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K};

class RandomBytes {
 public:
  explicit RandomBytes(uint32_t seed) : engine_(seed) {}
  float Uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(engine_);
  }
  int Integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  // One row of `elements` values of about the given spread.
  void AppendRow(TensorType type, int64_t elements, float spread, std::string& out) {
    const TensorTypeInfo& info = InfoOf(type);
    CHECK(elements % info.block_elements == 0);
    for (int64_t i = 0; i < elements; i += info.block_elements) AppendBlock(type, spread, out);
  }

 private:
  void Put16(uint16_t value, std::string& out) {
    out.append(reinterpret_cast<const char*>(&value), 2);
  }
  void PutHalf(float value, std::string& out) { Put16(FloatToHalf(value), out); }
  void PutBytes(int count, std::string& out) {
    for (int i = 0; i < count; ++i) out.push_back(static_cast<char>(Integer(-128, 127)));
  }

  void AppendBlock(TensorType type, float spread, std::string& out) {
    const float value = Uniform(-spread, spread);
    const float near_one = Uniform(0.8F, 1.2F);
    switch (type) {
      case TensorType::kF32:
        out.append(reinterpret_cast<const char*>(&value), 4);
        return;
      case TensorType::kF8_E4M3:
        CHECK(false);  // no type of GGUF
      case TensorType::kF16:
        PutHalf(value, out);
        return;
      case TensorType::kBF16: {
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        Put16(static_cast<uint16_t>(bits >> 16), out);
        return;
      }
      case TensorType::kQ4_0:
        PutHalf(spread / 8 * near_one, out);
        PutBytes(16, out);
        return;
      case TensorType::kQ4_1:
        PutHalf(spread / 8 * near_one, out);
        PutHalf(-spread * near_one, out);
        PutBytes(16, out);
        return;
      case TensorType::kQ5_0:
        PutHalf(spread / 16 * near_one, out);
        PutBytes(4 + 16, out);
        return;
      case TensorType::kQ5_1:
        PutHalf(spread / 16 * near_one, out);
        PutHalf(-spread * near_one, out);
        PutBytes(4 + 16, out);
        return;
      case TensorType::kQ2_K:
        PutBytes(16 + 64, out);
        PutHalf(spread / 16 * near_one, out);
        PutHalf(spread / 10 * near_one, out);
        return;
      case TensorType::kQ3_K:
        PutBytes(32 + 64 + 12, out);
        PutHalf(spread / 64 * near_one, out);
        return;
      case TensorType::kQ4_K:
      case TensorType::kQ5_K: {
        const bool five = type == TensorType::kQ5_K;
        PutHalf(spread / (five ? 512.0F : 256.0F) * near_one, out);
        PutHalf(spread / 32 * near_one, out);
        PutBytes(five ? 12 + 32 + 128 : 12 + 128, out);
        return;
      }
      case TensorType::kQ8_0:
        PutHalf(spread / 128 * near_one, out);
        PutBytes(32, out);
        return;
      case TensorType::kQ6_K:
        PutBytes(128 + 64 + 16, out);
        PutHalf(spread / 4096 * near_one, out);
        return;
    }
  }

  std::mt19937 engine_;
};

struct TinyShape {
  int layers = 2;
  int embedding = 64;
  int heads = 4;
  int kv_heads = 2;
  int feed_forward = 96;
  int vocab = 131;
  int head_dim = 16;
  bool tied = true;

  // The same with widths that the K types can hold.
  static TinyShape Wide() {
    return {.embedding = 256, .heads = 4, .kv_heads = 2, .feed_forward = 256, .head_dim = 64};
  }
};

class TinyGguf {
 public:
  TinyGguf(const TinyShape& shape, TensorType type, uint32_t seed) : random_(seed) {
    AddKeys(shape);
    const int queries = shape.heads * shape.head_dim;
    const int keys = shape.kv_heads * shape.head_dim;
    Matrix("token_embd", type, shape.embedding, shape.vocab, 1.0F);
    Norm("output_norm", shape.embedding);
    if (!shape.tied) Matrix("output", type, shape.embedding, shape.vocab, 1.0F);
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Norm(prefix + "attn_norm", shape.embedding);
      Matrix(prefix + "attn_q", type, shape.embedding, queries, 4.0F);
      Matrix(prefix + "attn_k", type, shape.embedding, keys, 4.0F);
      Matrix(prefix + "attn_v", type, shape.embedding, keys, 2.0F);
      Matrix(prefix + "attn_output", type, queries, shape.embedding, 2.0F);
      Norm(prefix + "ffn_norm", shape.embedding);
      Matrix(prefix + "ffn_gate", type, shape.embedding, shape.feed_forward, 2.0F);
      Matrix(prefix + "ffn_up", type, shape.embedding, shape.feed_forward, 2.0F);
      Matrix(prefix + "ffn_down", type, shape.feed_forward, shape.embedding, 2.0F);
    }
  }

  std::string Bytes() const {
    std::string out = "GGUF";
    Put<uint32_t>(3, out);
    Put<uint64_t>(tensors_, out);
    Put<uint64_t>(keys_, out);
    out += metadata_ + table_;
    out.resize((out.size() + 31) / 32 * 32, '\0');
    return out + data_;
  }

  // A file that is removed at the end of the test program only by its folder: tests use TempDir.
  std::string WriteTo(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << Bytes();
    return path;
  }

 private:
  template <class T>
  static void Put(T value, std::string& out) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void PutString(const std::string& text, std::string& out) {
    Put<uint64_t>(text.size(), out);
    out += text;
  }
  void Key(const std::string& name, uint32_t type) {
    ++keys_;
    PutString(name, metadata_);
    Put(type, metadata_);
  }
  void Uint(const std::string& name, int value) {
    Key("llama." + name, 4);
    Put(static_cast<uint32_t>(value), metadata_);
  }
  void AddKeys(const TinyShape& shape) {
    Key("general.architecture", 8);
    PutString("llama", metadata_);
    Uint("block_count", shape.layers);
    Uint("context_length", 4096);
    Uint("embedding_length", shape.embedding);
    Uint("feed_forward_length", shape.feed_forward);
    Uint("attention.head_count", shape.heads);
    Uint("attention.head_count_kv", shape.kv_heads);
    Uint("attention.key_length", shape.head_dim);
    Uint("attention.value_length", shape.head_dim);
    Uint("rope.dimension_count", shape.head_dim);
    Key("llama.attention.layer_norm_rms_epsilon", 6);
    Put(1e-5F, metadata_);
  }
  void Entry(const std::string& name, TensorType type, std::vector<int> dims) {
    ++tensors_;
    data_.resize((data_.size() + 31) / 32 * 32, '\0');
    PutString(name + ".weight", table_);
    Put(static_cast<uint32_t>(dims.size()), table_);
    for (const int dim : dims) Put(static_cast<uint64_t>(dim), table_);
    Put(static_cast<uint32_t>(type), table_);
    Put<uint64_t>(data_.size(), table_);
  }
  void Norm(const std::string& name, int width) {
    Entry(name, TensorType::kF32, {width});
    for (int i = 0; i < width; ++i) Put(random_.Uniform(0.7F, 1.3F), data_);
  }
  void Matrix(const std::string& name, TensorType type, int inputs, int outputs, float gain) {
    Entry(name, type, {inputs, outputs});
    const float spread = gain / std::sqrt(static_cast<float>(inputs));
    for (int row = 0; row < outputs; ++row) random_.AppendRow(type, inputs, spread, data_);
  }

  RandomBytes random_;
  std::string metadata_;
  std::string table_;
  std::string data_;
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TINY_GGUF_H_

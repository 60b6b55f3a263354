// Test support: puts a GGUF file together in memory, correct or deliberately wrong.
#ifndef TANDEM_MODEL_GGUF_BUILDER_H_
#define TANDEM_MODEL_GGUF_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace tandem::model {

class GgufBuilder {
 public:
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  int64_t extra_keys = 0;  // added to the declared counts
  int64_t extra_tensors = 0;
  uint64_t alignment = 32;
  size_t cut = 0;  // bytes left away at the end

  template <class T>
  GgufBuilder& Scalar(std::string_view key, GgufType type, T value) {
    Key(key, type);
    Put(keys_, value);
    return *this;
  }
  GgufBuilder& U32(std::string_view key, uint32_t value) {
    return Scalar(key, GgufType::kUint32, value);
  }
  GgufBuilder& F32(std::string_view key, float value) {
    return Scalar(key, GgufType::kFloat32, value);
  }
  GgufBuilder& String(std::string_view key, std::string_view value) {
    Key(key, GgufType::kString);
    PutString(keys_, value);
    return *this;
  }
  GgufBuilder& Strings(std::string_view key, const std::vector<std::string>& values) {
    ArrayHeader(key, GgufType::kString, values.size());
    for (const std::string& value : values) PutString(keys_, value);
    return *this;
  }
  template <class T>
  GgufBuilder& Array(std::string_view key, GgufType element, const std::vector<T>& values) {
    ArrayHeader(key, element, values.size());
    for (const T value : values) Put(keys_, value);
    return *this;
  }
  // An array whose header promises `count` elements; nothing follows.
  GgufBuilder& ArrayHeader(std::string_view key, GgufType element, uint64_t count) {
    Key(key, GgufType::kArray);
    Put(keys_, static_cast<uint32_t>(element));
    Put(keys_, count);
    return *this;
  }
  GgufBuilder& Raw32(uint32_t value) {
    Put(keys_, value);
    return *this;
  }
  GgufBuilder& Raw64(uint64_t value) {
    Put(keys_, value);
    return *this;
  }

  // A tensor of `bytes` zero bytes; its declared offset is moved by `shift`.
  GgufBuilder& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      size_t bytes, uint64_t shift = 0) {
    PutString(table_, name);
    Put(table_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) Put(table_, dim);
    Put(table_, type);
    Put(table_, static_cast<uint64_t>(data_.size()) + shift);
    data_.resize((data_.size() + bytes + alignment - 1) / alignment * alignment);
    ++tensors_;
    return *this;
  }
  // An F32 tensor of zeros.
  GgufBuilder& Matrix(std::string_view name, uint64_t inputs, uint64_t rows) {
    return Tensor(name, {inputs, rows}, 0, static_cast<size_t>(inputs * rows * 4));
  }

  std::vector<std::byte> Build() const {
    std::vector<std::byte> file;
    Put(file, magic);
    Put(file, version);
    Put(file, tensors_ + static_cast<uint64_t>(extra_tensors));
    Put(file, key_count_ + static_cast<uint64_t>(extra_keys));
    file.insert(file.end(), keys_.begin(), keys_.end());
    file.insert(file.end(), table_.begin(), table_.end());
    if (!data_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
    file.insert(file.end(), data_.begin(), data_.end());
    file.resize(file.size() - std::min(cut, file.size()));
    return file;
  }

 private:
  template <class T>
  static void Put(std::vector<std::byte>& to, T value) {
    const size_t at = to.size();
    to.resize(at + sizeof(T));
    std::memcpy(to.data() + at, &value, sizeof(T));
  }
  static void PutString(std::vector<std::byte>& to, std::string_view text) {
    Put(to, static_cast<uint64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  void Key(std::string_view key, GgufType type) {
    PutString(keys_, key);
    Put(keys_, static_cast<uint32_t>(type));
    ++key_count_;
  }

  std::vector<std::byte> keys_;
  std::vector<std::byte> table_;
  std::vector<std::byte> data_;
  uint64_t key_count_ = 0;
  uint64_t tensors_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_GGUF_BUILDER_H_

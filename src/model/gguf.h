// Reads GGUF model files (versions 2 and 3, little-endian). The file is not trusted: every count,
// length, product and offset is checked before use, and an error names what is wrong and where.
// Parsing allocates memory in proportion to the number of keys and tensors only; strings, arrays
// and tensor data stay in the file's bytes.
#ifndef TANDEM_MODEL_GGUF_H_
#define TANDEM_MODEL_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/mapped_file.h"
#include "model/tensor.h"

namespace tandem::model {

// Types of metadata values; the numbers are those of the file format.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

std::string_view GgufTypeName(GgufType type);

// One metadata value. `bytes` are the payload in the file: of a scalar its little-endian bytes, of
// a string its characters, of an array its elements, already checked to lie inside the file.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;  // of an array
  uint64_t count = 0;                   // elements of an array
  std::span<const std::byte> bytes;
};

// A parsed file whose bytes belong to somebody else and must outlive the view.
class GgufView {
 public:
  // `label` names the bytes in errors: a path.
  static Result<GgufView> Parse(std::span<const std::byte> file, std::string label);

  const std::string& label() const { return label_; }
  uint32_t version() const { return version_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Null when the file has no such tensor or key.
  const Tensor* FindTensor(std::string_view name) const;
  const GgufValue* Find(std::string_view key) const;
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  // Everything before the tensor data: metadata and tensor table.
  std::span<const std::byte> header() const { return header_; }

  // Typed values. An integer of any width and sign is accepted where its value fits. A missing key
  // gives `fallback`, or an error that names the key when there is none; another type is an error.
  Result<uint64_t> Uint(std::string_view key, std::optional<uint64_t> fallback = {}) const;
  Result<int64_t> Int(std::string_view key, std::optional<int64_t> fallback = {}) const;
  Result<double> Float(std::string_view key, std::optional<double> fallback = {}) const;
  Result<bool> Bool(std::string_view key, std::optional<bool> fallback = {}) const;
  // Views into the file.
  Result<std::string_view> String(std::string_view key,
                                  std::optional<std::string_view> fallback = {}) const;
  // Arrays; empty when the key is missing.
  Result<std::vector<std::string_view>> Strings(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;
  Result<std::vector<float>> Floats(std::string_view key) const;

 private:
  friend class GgufParser;
  GgufView() = default;
  std::unexpected<Error> Missing(std::string_view key) const;
  std::unexpected<Error> WrongType(std::string_view key, const GgufValue& value,
                                   std::string_view wanted) const;
  Result<const GgufValue*> Array(std::string_view key) const;

  std::string label_;
  uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
  std::span<const std::byte> header_;
};

// A GGUF file mapped read-only. Unmapped when destroyed; whatever views it gave ends then.
class GgufFile {
 public:
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);

  const GgufView& view() const { return view_; }
  std::span<const std::byte> bytes() const { return mapped_.bytes(); }

 private:
  GgufFile(MappedFile mapped, GgufView view) : mapped_(std::move(mapped)), view_(std::move(view)) {}

  MappedFile mapped_;
  GgufView view_;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_GGUF_H_

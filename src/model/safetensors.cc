#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "model/gguf_cursor.h"
#include "wire/json.h"

namespace tandem::model {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxDims = 8;

std::optional<TensorType> TypeOf(std::string_view name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBF16;
  if (name == "F8_E4M3") return TensorType::kF8_E4M3;
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::span<const std::byte> data, const std::string& label) : data_(data), label_(label) {}

  // One member of the header; sets *type to the type's name where this build lacks it.
  Result<Tensor> Read(std::string_view name, const wire::Json& entry, std::string* type) const {
    Tensor tensor;
    tensor.name = name;
    const wire::Json* dtype = entry.Find("dtype");
    if (dtype == nullptr || !dtype->IsString()) return Bad(name, "has no \"dtype\"");
    TRY_ASSIGN(const uint64_t elements, ReadShape(name, entry, tensor));
    TRY_ASSIGN(tensor.bytes, ReadRange(name, entry));
    const std::optional<TensorType> known = TypeOf(dtype->AsString());
    if (!known) {
      *type = Printable(dtype->AsString());
      return tensor;
    }
    tensor.type = *known;
    const auto width = static_cast<uint64_t>(InfoOf(*known).block_bytes);
    if (elements > data_.size() / width || elements * width != tensor.bytes.size())
      return Bad(name, fmt::format("has {} bytes of data, its shape needs {} values of {}",
                                   tensor.bytes.size(), elements, dtype->AsString()));
    return tensor;
  }

 private:
  std::unexpected<Error> Bad(std::string_view name, std::string_view what) const {
    return Err(Code::kCorrupt, "{}: tensor {} {}", label_, Printable(name), what);
  }

  Result<uint64_t> ReadShape(std::string_view name, const wire::Json& entry, Tensor& tensor) const {
    const wire::Json* shape = entry.Find("shape");
    if (shape == nullptr || !shape->IsArray() || shape->AsArray().size() > kMaxDims)
      return Bad(name, "has no \"shape\" of at most 8 numbers");
    uint64_t elements = 1;
    for (auto dim = shape->AsArray().rbegin(); dim != shape->AsArray().rend(); ++dim) {
      if (!dim->IsInt() || dim->AsInt() < 1 ||
          __builtin_mul_overflow(elements, static_cast<uint64_t>(dim->AsInt()), &elements))
        return Bad(name, "has a \"shape\" with a number out of range");
      tensor.dims.push_back(dim->AsInt());
    }
    if (tensor.dims.empty()) tensor.dims.push_back(1);
    return elements;
  }

  Result<std::span<const std::byte>> ReadRange(std::string_view name,
                                               const wire::Json& entry) const {
    const wire::Json* range = entry.Find("data_offsets");
    if (range == nullptr || !range->IsArray() || range->AsArray().size() != 2 ||
        !range->AsArray()[0].IsInt() || !range->AsArray()[1].IsInt())
      return Bad(name, "has no two \"data_offsets\"");
    const int64_t begin = range->AsArray()[0].AsInt();
    const int64_t end = range->AsArray()[1].AsInt();
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data_.size())
      return Bad(name, fmt::format("has \"data_offsets\" {} to {}, the file has {} bytes of data: "
                                   "it is cut off or damaged, fetch it again",
                                   begin, end, data_.size()));
    return data_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  std::span<const std::byte> data_;
  const std::string& label_;
};

}  // namespace

Result<SafetensorsView> SafetensorsView::Parse(std::span<const std::byte> file, std::string label) {
  SafetensorsView view;
  view.label_ = std::move(label);
  uint64_t length = 0;
  if (file.size() < kLengthBytes)
    return Err(Code::kCorrupt, "{}: {} bytes are too few for a safetensors file", view.label_,
               file.size());
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > std::min(kMaxSafetensorsHeader, file.size() - kLengthBytes))
    return Err(Code::kCorrupt,
               "{}: not a safetensors file, or cut off: its header has {} bytes, the file {}",
               view.label_, length, file.size());
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const auto json = wire::ParseJson(header, {.max_bytes = kMaxSafetensorsHeader});
  if (!json || !json->IsObject())
    return Err(Code::kCorrupt, "{}: its header is not a JSON object{}{}", view.label_,
               json ? "" : ": ", json ? "" : json.error().message);
  const Parser parser(file.subspan(kLengthBytes + length), view.label_);
  // Names must not move once tensors refer to them.
  view.names_.reserve(json->AsObject().size());
  for (const wire::Json::Member& member : json->AsObject()) {
    if (member.key == "__metadata__") continue;
    view.names_.push_back(member.key);
    std::string unsupported;
    TRY_ASSIGN(Tensor tensor, parser.Read(view.names_.back(), member.value, &unsupported));
    if (unsupported.empty())
      view.tensors_.push_back(std::move(tensor));
    else
      view.unsupported_.push_back({member.key, std::move(unsupported)});
  }
  return view;
}

}  // namespace tandem::model

// The walk through a GGUF file: header, metadata, tensor table. Nothing in it is believed before it
// was checked against the bytes that are really there.
#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "model/gguf.h"
#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 262144;
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// The least that one entry takes; counts are checked against it before anything is allocated.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

size_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

bool IsType(uint32_t id) { return id <= static_cast<uint32_t>(GgufType::kFloat64); }

}  // namespace

std::string Printable(std::string_view text) {
  constexpr size_t kLimit = 80;
  std::string shown;
  for (const char c : text.substr(0, kLimit)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && byte != '\\')
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", byte);
  }
  if (text.size() > kLimit) shown += "...";
  return shown;
}

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> file, std::string label)
      : file_(file), label_(std::move(label)), cursor_(file, label_) {
    view_.label_ = label_;
  }

  Result<GgufView> Parse() {
    TRY(ReadHeader());
    for (uint64_t i = 0; i < key_count_; ++i) TRY(ReadKey(i));
    TRY(ReadAlignment());
    view_.tensors_.reserve(static_cast<size_t>(tensor_count_));
    offsets_.reserve(static_cast<size_t>(tensor_count_));
    for (uint64_t i = 0; i < tensor_count_; ++i) TRY(ReadTensor(i));
    TRY(PlaceTensors());
    return std::move(view_);
  }

 private:
  Status ReadHeader() {
    TRY_ASSIGN(const uint32_t magic, cursor_.Read<uint32_t>("the magic number"));
    if (magic != kMagic)
      return Err(Code::kCorrupt, "{}: not a GGUF file: it starts with 0x{:08x}, not \"GGUF\"",
                 label_, magic);
    TRY_ASSIGN(const uint32_t version, cursor_.Read<uint32_t>("the version"));
    if (version == 1)
      return Err(Code::kUnsupported,
                 "{}: GGUF version 1 is not supported: convert the model again with a current "
                 "converter (versions 2 and 3 are read)",
                 label_);
    if (version != 2 && version != 3)
      return Err(Code::kUnsupported, "{}: GGUF version {} is not supported (2 and 3 are){}", label_,
                 version,
                 __builtin_bswap32(version) <= 3 ? "; the file is big-endian: convert it" : "");
    view_.version_ = version;
    TRY_ASSIGN(tensor_count_, cursor_.Read<uint64_t>("the tensor count"));
    TRY_ASSIGN(key_count_, cursor_.Read<uint64_t>("the key count"));
    if (tensor_count_ > kMaxTensors || tensor_count_ > cursor_.left() / kMinTensorBytes)
      return Err(Code::kCorrupt, "{}: tensor count {} cannot be: the file has {} bytes", label_,
                 tensor_count_, file_.size());
    if (key_count_ > kMaxKeys || key_count_ > cursor_.left() / kMinKeyBytes)
      return Err(Code::kCorrupt, "{}: key count {} cannot be: the file has {} bytes", label_,
                 key_count_, file_.size());
    return {};
  }

  Result<GgufType> ReadType(std::string_view what) {
    TRY_ASSIGN(const uint32_t id, cursor_.Read<uint32_t>(what));
    if (!IsType(id))
      return Err(Code::kCorrupt, "{}: {} has unknown value type {}", label_, what, id);
    return static_cast<GgufType>(id);
  }

  Status ReadKey(uint64_t index) {
    TRY_ASSIGN(const std::string_view key,
               cursor_.ReadString(kMaxNameBytes, fmt::format("the name of key {}", index)));
    const std::string what = fmt::format("key '{}'", Printable(key));
    GgufValue value;
    TRY_ASSIGN(value.type, ReadType(what));
    if (value.type == GgufType::kArray) {
      TRY(ReadArrayHeader(value, what));
      const size_t start = cursor_.offset();
      TRY(SkipElements(value.element, value.count, what, 1));
      value.bytes = file_.subspan(start, cursor_.offset() - start);
    } else if (value.type == GgufType::kString) {
      TRY_ASSIGN(const std::string_view text, cursor_.ReadString(kMaxStringBytes, what));
      value.bytes = std::as_bytes(std::span(text.data(), text.size()));
    } else {
      TRY_ASSIGN(value.bytes, cursor_.Take(ScalarBytes(value.type), what));
    }
    if (!view_.metadata_.emplace(key, value).second)
      return Err(Code::kCorrupt, "{}: {} appears twice", label_, what);
    return {};
  }

  Status ReadArrayHeader(GgufValue& value, std::string_view what) {
    TRY_ASSIGN(value.element, ReadType(what));
    TRY_ASSIGN(value.count, cursor_.Read<uint64_t>(what));
    return {};
  }

  // Walks over array elements. Each takes at least one byte of the file, so the file's size bounds
  // the work whatever the count says.
  Status SkipElements(GgufType element, uint64_t count, std::string_view what, int depth) {
    if (element == GgufType::kString) {
      for (uint64_t i = 0; i < count; ++i) TRY(cursor_.ReadString(kMaxStringBytes, what));
      return {};
    }
    if (element == GgufType::kArray) {
      if (depth >= kMaxArrayDepth)
        return Err(Code::kCorrupt, "{}: {} nests arrays deeper than {}", label_, what,
                   kMaxArrayDepth);
      for (uint64_t i = 0; i < count; ++i) {
        GgufValue inner;
        TRY(ReadArrayHeader(inner, what));
        TRY(SkipElements(inner.element, inner.count, what, depth + 1));
      }
      return {};
    }
    const size_t size = ScalarBytes(element);
    if (count > cursor_.left() / size)
      return Err(Code::kCorrupt,
                 "{}: truncated: {} claims {} elements of {} bytes, {} bytes are left", label_,
                 what, count, size, cursor_.left());
    TRY(cursor_.Take(count * size, what));
    return {};
  }

  Status ReadAlignment() {
    TRY_ASSIGN(alignment_, view_.Uint("general.alignment", kDefaultAlignment));
    if (!std::has_single_bit(alignment_) || alignment_ > kMaxAlignment)
      return Err(Code::kCorrupt, "{}: general.alignment is {}: it must be a power of two up to {}",
                 label_, alignment_, kMaxAlignment);
    return {};
  }

  Status ReadTensor(uint64_t index) {
    Tensor tensor;
    TRY_ASSIGN(tensor.name,
               cursor_.ReadString(kMaxNameBytes, fmt::format("the name of tensor {}", index)));
    const std::string what = fmt::format("tensor {}", Printable(tensor.name));
    TRY(ReadDims(tensor, what));
    TRY_ASSIGN(const uint32_t type, cursor_.Read<uint32_t>(what));
    const TensorTypeInfo* info = FindTensorType(type);
    if (info == nullptr)
      return Err(Code::kUnsupported, "{}: {} has type {}, which is not supported (supported: {})",
                 label_, what, TensorTypeName(type), SupportedTensorTypes());
    tensor.type = info->type;
    if (tensor.dims[0] % info->block_elements != 0)
      return Err(Code::kCorrupt,
                 "{}: {} has rows of {} elements, not a multiple of {}'s block of {}", label_, what,
                 tensor.dims[0], info->name, info->block_elements);
    TRY_ASSIGN(const uint64_t offset, cursor_.Read<uint64_t>(what));
    if (offset % alignment_ != 0)
      return Err(Code::kCorrupt, "{}: {} has offset {}, not a multiple of the alignment {}", label_,
                 what, offset, alignment_);
    if (!view_.tensor_index_.emplace(tensor.name, view_.tensors_.size()).second)
      return Err(Code::kCorrupt, "{}: {} appears twice", label_, what);
    view_.tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
    return {};
  }

  Status ReadDims(Tensor& tensor, std::string_view what) {
    TRY_ASSIGN(const uint32_t count, cursor_.Read<uint32_t>(what));
    if (count < 1 || count > kMaxDims)
      return Err(Code::kCorrupt, "{}: {} has {} dimensions, 1 to {} are possible", label_, what,
                 count, kMaxDims);
    // No supported type takes less than half a byte per element.
    const uint64_t limit = 2 * static_cast<uint64_t>(file_.size());
    uint64_t elements = 1;
    for (uint32_t i = 0; i < count; ++i) {
      TRY_ASSIGN(const uint64_t dim, cursor_.Read<uint64_t>(what));
      if (dim == 0 || dim > limit / elements)
        return Err(Code::kCorrupt,
                   "{}: {} has dimension {} of size {}: the file of {} bytes cannot hold it",
                   label_, what, i, dim, file_.size());
      elements *= dim;
      tensor.dims.push_back(static_cast<int64_t>(dim));
    }
    return {};
  }

  // The data section starts at the next aligned byte after the table; each tensor must lie in it.
  Status PlaceTensors() {
    view_.header_ = file_.first(cursor_.offset());
    const uint64_t start = (cursor_.offset() + alignment_ - 1) / alignment_ * alignment_;
    for (size_t i = 0; i < view_.tensors_.size(); ++i) {
      Tensor& tensor = view_.tensors_[i];
      const uint64_t size =
          RowBytes(tensor.type, tensor.dims[0]) * static_cast<uint64_t>(tensor.Rows());
      if (offsets_[i] > std::numeric_limits<uint64_t>::max() - start - size ||
          start + offsets_[i] + size > file_.size())
        return Err(Code::kCorrupt,
                   "{}: truncated: tensor {} of {} bytes starts at byte {} of the data section "
                   "(byte {} of the file), the file has {} bytes: fetch it again",
                   label_, Printable(tensor.name), size, offsets_[i], start + offsets_[i],
                   file_.size());
      tensor.bytes =
          file_.subspan(static_cast<size_t>(start + offsets_[i]), static_cast<size_t>(size));
    }
    return {};
  }

  std::span<const std::byte> file_;
  std::string label_;
  GgufCursor cursor_;
  GgufView view_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<uint64_t> offsets_;  // of each tensor, relative to the data section
};

Result<GgufView> GgufView::Parse(std::span<const std::byte> file, std::string label) {
  return GgufParser(file, std::move(label)).Parse();
}

}  // namespace tandem::model

#include "model/tensor_types.h"

#include <array>

#include "base/check.h"

namespace tandem::model {
namespace {

constexpr std::array<TensorTypeInfo, 13> kSupported = {{
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kBF16, "BF16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 18},
    {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},
    {TensorType::kQ5_1, "Q5_1", 32, 24},
    {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ2_K, "Q2_K", 256, 84},
    {TensorType::kQ3_K, "Q3_K", 256, 110},
    {TensorType::kQ4_K, "Q4_K", 256, 144},
    {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},
}};

constexpr TensorTypeInfo kFp8 = {TensorType::kF8_E4M3, "F8_E4M3", 1, 1};

struct KnownName {
  uint32_t id;
  std::string_view name;
};

// Types that exist in the wild; naming them makes the refusal understandable.
constexpr std::array<KnownName, 21> kUnsupported = {{
    {9, "Q8_1"},    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},  {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},       {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {31, "Q4_0_4_4"}, {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"}, {40, "NVFP4"},
}};

}  // namespace

const TensorTypeInfo* FindTensorType(uint32_t id) {
  for (const TensorTypeInfo& info : kSupported)
    if (static_cast<uint32_t>(info.type) == id) return &info;
  return nullptr;
}

const TensorTypeInfo& InfoOf(TensorType type) {
  if (type == TensorType::kF8_E4M3) return kFp8;
  const TensorTypeInfo* info = FindTensorType(static_cast<uint32_t>(type));
  CHECK(info != nullptr);
  return *info;
}

std::string TensorTypeName(uint32_t id) {
  if (const TensorTypeInfo* info = FindTensorType(id)) return std::string(info->name);
  for (const KnownName& known : kUnsupported)
    if (known.id == id) return std::string(known.name);
  return "type " + std::to_string(id);
}

std::string SupportedTensorTypes() {
  std::string list;
  for (const TensorTypeInfo& info : kSupported) {
    if (!list.empty()) list += ", ";
    list += info.name;
  }
  return list;
}

size_t RowBytes(TensorType type, int64_t elements) {
  const TensorTypeInfo& info = InfoOf(type);
  CHECK(elements >= 0 && elements % info.block_elements == 0);
  return static_cast<size_t>(elements / info.block_elements) *
         static_cast<size_t>(info.block_bytes);
}

}  // namespace tandem::model

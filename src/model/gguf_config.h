// Reads the model's description from GGUF metadata: typed access to the keys of its architecture,
// and what all architectures share.
#ifndef TANDEM_MODEL_GGUF_CONFIG_H_
#define TANDEM_MODEL_GGUF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace tandem::model {

// The keys "{architecture}.NAME". Errors name file and key.
class GgufConfig {
 public:
  // `file` must outlive this. Fails without general.architecture.
  static Result<GgufConfig> Of(const GgufView& file);

  const GgufView& file() const { return file_; }
  const std::string& label() const { return file_.label(); }
  const std::string& architecture() const { return architecture_; }
  std::string Key(std::string_view name) const;
  bool Has(std::string_view name) const { return file_.Find(Key(name)) != nullptr; }
  bool HasTensor(std::string_view name) const { return file_.FindTensor(name) != nullptr; }

  // Absent: the fallback, or an error without one. A list of one number per layer is refused by
  // name.
  Result<int64_t> Int(std::string_view name, int64_t low, int64_t high,
                      std::optional<int64_t> fallback = {}) const;
  // A size: at least 1.
  Result<int> Size(std::string_view name, std::optional<int> fallback = {}) const;
  Result<double> Float(std::string_view name, double low, double high,
                       std::optional<double> fallback = {}) const;
  Result<bool> Bool(std::string_view name, bool fallback) const;
  Result<std::string> String(std::string_view name, std::string_view fallback) const;
  // The values of a float32 vector tensor; empty if the file has none.
  Result<std::vector<float>> Factors(std::string_view tensor) const;

 private:
  explicit GgufConfig(const GgufView& file) : file_(file) {}
  const GgufView& file_;
  std::string architecture_;
};

// What the metadata says in the same words for every architecture: sizes, heads, rope, experts.
// Families adjust the result.
Result<ModelConfig> ReadCommonGguf(const GgufConfig& config);

// The number of keys a sliding layer sees, or 0.
Result<int> GgufWindow(const GgufConfig& config);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_GGUF_CONFIG_H_

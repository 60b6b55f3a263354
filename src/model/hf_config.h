// Reads a Hugging Face config.json: typed access to its members, and what all families share.
#ifndef TANDEM_MODEL_HF_CONFIG_H_
#define TANDEM_MODEL_HF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model_config.h"
#include "wire/json.h"

namespace tandem::model {

// An object of config.json. A member that is null counts as absent. Errors name file and member.
class HfConfig {
 public:
  // `json` must outlive this; `label` is the file's path.
  HfConfig(const wire::Json& json, std::string label) : json_(json), label_(std::move(label)) {}

  const std::string& label() const { return label_; }
  const wire::Json* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // Absent: the fallback, or an error without one.
  Result<int64_t> Int(std::string_view key, int64_t low, int64_t high,
                      std::optional<int64_t> fallback = {}) const;
  // A size: at least 1.
  Result<int> Size(std::string_view key, std::optional<int> fallback = {}) const;
  Result<double> Float(std::string_view key, double low, double high,
                       std::optional<double> fallback = {}) const;
  Result<bool> Bool(std::string_view key, std::optional<bool> fallback = {}) const;
  Result<std::string> String(std::string_view key, std::optional<std::string> fallback = {}) const;
  // Positive numbers; empty if absent.
  Result<std::vector<float>> Factors(std::string_view key) const;

 private:
  std::unexpected<Error> Bad(std::string_view key, const wire::Json& value,
                             std::string_view wanted) const;

  const wire::Json& json_;
  std::string label_;
};

// What config.json says in the same words for every family: sizes, heads, rope, windows by
// "layer_types", activation. Families adjust the result.
Result<ModelConfig> ReadCommonHf(const HfConfig& config);

// The number in "sliding_window", or 0.
Result<int> HfWindow(const HfConfig& config);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_HF_CONFIG_H_

#include "router/picker.h"

#include <array>
#include <map>
#include <utility>

namespace tandem::router {
namespace {

class RoundRobin final : public Picker {
 public:
  size_t Pick(std::span<const Worker* const> candidates, const PickInput& input) override {
    // One turn per model and role: a disaggregated request takes two picks, and a shared count
    // would then always meet the same half of the workers.
    auto& turns = turns_[static_cast<size_t>(input.role)];
    auto found = turns.find(input.model);
    if (found == turns.end()) {
      if (turns.size() >= kMaxTurns) turns.clear();
      found = turns.emplace(std::string(input.model), 0).first;
    }
    return found->second++ % candidates.size();
  }

 private:
  static constexpr size_t kMaxTurns = 4096;  // models come and go; forgetting a turn is harmless
  std::array<std::map<std::string, uint64_t, std::less<>>, kRoles> turns_;
};

class Random final : public Picker {
 public:
  explicit Random(std::function<uint64_t()> random) : random_(std::move(random)) {}
  size_t Pick(std::span<const Worker* const> candidates, const PickInput&) override {
    return random_() % candidates.size();
  }

 private:
  std::function<uint64_t()> random_;
};

}  // namespace

Result<std::unique_ptr<Picker>> MakePicker(std::string_view mode,
                                           std::function<uint64_t()> random) {
  if (mode == "round-robin") return std::make_unique<RoundRobin>();
  if (mode == "random") return std::make_unique<Random>(std::move(random));
  return FieldErr("--router-mode", "--router-mode is '{}'; use round-robin or random", mode);
}

}  // namespace tandem::router

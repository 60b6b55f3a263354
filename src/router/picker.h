// How one of several workers is chosen for a leg of a request.
#ifndef TANDEM_ROUTER_PICKER_H_
#define TANDEM_ROUTER_PICKER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "router/worker.h"

namespace tandem::router {

// What a choice may depend on.
struct PickInput {
  std::string_view model;
  Role role = Role::kAggregated;
  std::span<const wire::TokenId> prompt;
};

class Picker {
 public:
  virtual ~Picker() = default;
  // An index into `candidates`, which is not empty and in order of instance id.
  virtual size_t Pick(std::span<const Worker* const> candidates, const PickInput& input) = 0;
};

// mode: "round-robin" or "random". kInvalidArgument, naming --router-mode, for any other. `random`
// gives 64 random bits.
Result<std::unique_ptr<Picker>> MakePicker(std::string_view mode, std::function<uint64_t()> random);

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_PICKER_H_

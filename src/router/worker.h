// A worker as the router knows it.
#ifndef TANDEM_ROUTER_WORKER_H_
#define TANDEM_ROUTER_WORKER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "wire/messages.h"

namespace tandem::router {

enum class Role : uint8_t { kAggregated, kPrefill, kDecode };
inline constexpr size_t kRoles = 3;

inline std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kAggregated:
      return "agg";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "?";
}

struct Worker {
  wire::Instance instance;
  Role role = Role::kAggregated;
  // Non-empty: it gets no requests, for this reason (docs/contracts/frontend-worker.md, Agreement).
  std::string excluded;
  // After a lost connection others are preferred until then.
  MonoTime inhibited_until = MonoTime::min();

  uint64_t id() const { return instance.id; }
  const std::string& connector() const { return instance.card.kv_connector; }
};

}  // namespace tandem::router

#endif  // TANDEM_ROUTER_WORKER_H_

// The bodies of /v1/models, /v1/models/{id} and /health. Pure views of the router's table.
#ifndef TANDEM_FRONTEND_PAGES_H_
#define TANDEM_FRONTEND_PAGES_H_

#include <optional>
#include <string>
#include <string_view>

#include "router/router_table.h"

namespace tandem::frontend {

// Models that can be served now, aliases included.
std::string ModelsPage(const router::RouterTable& table);
// nullopt if there is no such model now.
std::optional<std::string> ModelPage(const router::RouterTable& table, std::string_view name);
// Instances and, for those without requests, why.
std::string HealthPage(const router::RouterTable& table, MonoTime now);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_PAGES_H_

#include "apps/version.h"

namespace tandem::apps {

std::string_view Version() { return TANDEM_VERSION; }

}  // namespace tandem::apps

#ifndef TANDEM_APPS_VERSION_H_
#define TANDEM_APPS_VERSION_H_

#include <string_view>

namespace tandem::apps {

std::string_view Version();  // "0.1.0"

}  // namespace tandem::apps

#endif  // TANDEM_APPS_VERSION_H_

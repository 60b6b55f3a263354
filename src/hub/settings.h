// Where the Hugging Face hub and its cache are: the environment variables of huggingface_hub.
#ifndef TANDEM_HUB_SETTINGS_H_
#define TANDEM_HUB_SETTINGS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/url.h"

namespace tandem::hub {

struct Settings {
  net::Url endpoint;  // HF_ENDPOINT, else https://huggingface.co; target without a slash at its end
  std::string token;  // HF_TOKEN, else the text of HF_TOKEN_PATH or HF_HOME/token; "" for none
  std::string cache;  // HF_HUB_CACHE, else HF_HOME/hub; HF_HOME is ~/.cache/huggingface by default
  bool offline = false;  // HF_HUB_OFFLINE
};

// Gives the value of a variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
// Errors name the variable. A token that cannot stand in a header is one.
Result<Settings> ReadSettings(const Environment& environment);
Environment ProcessEnvironment();

}  // namespace tandem::hub

#endif  // TANDEM_HUB_SETTINGS_H_

#include "hub/settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

namespace tandem::hub {
namespace {

constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kMaxTokenBytes = 4096;

// The first of these variables that is set and not empty.
std::string FirstOf(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (auto value = environment(name); value && !value->empty()) return *std::move(value);
  return {};
}

bool IsTrue(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::array<std::string_view, 4> kTrue = {"1", "ON", "YES", "TRUE"};
  return std::find(kTrue.begin(), kTrue.end(), value) != kTrue.end();
}

// "~/x" below the home folder.
std::string Expanded(std::string path, const std::string& home) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home);
  return path;
}

std::string Stripped(std::string text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string FirstBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxTokenBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<Settings> ReadSettings(const Environment& environment) {
  Settings settings;
  std::string endpoint = FirstOf(environment, {"HF_ENDPOINT"});
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  auto url = net::ParseUrl(endpoint);
  if (!url) return FieldErr("HF_ENDPOINT", "HF_ENDPOINT: {}", url.error().message);
  settings.endpoint = *std::move(url);
  while (settings.endpoint.target.ends_with('/')) settings.endpoint.target.pop_back();
  const std::string home = FirstOf(environment, {"HOME"});
  std::string base = FirstOf(environment, {"HF_HOME"});
  if (base.empty()) {
    const std::string caches = FirstOf(environment, {"XDG_CACHE_HOME"});
    base = (caches.empty() ? home + "/.cache" : caches) + "/huggingface";
  }
  base = Expanded(base, home);
  settings.cache = FirstOf(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  settings.cache = settings.cache.empty() ? base + "/hub" : Expanded(settings.cache, home);
  settings.token = Stripped(FirstOf(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (settings.token.empty()) {
    const std::string path = FirstOf(environment, {"HF_TOKEN_PATH"});
    settings.token = Stripped(FirstBytes(path.empty() ? base + "/token" : Expanded(path, home)));
  }
  if (std::any_of(settings.token.begin(), settings.token.end(),
                  [](char c) { return c <= 0x20 || c == 0x7f; }))
    return FieldErr("HF_TOKEN",
                    "the Hugging Face token (HF_TOKEN or its file) holds characters that "
                    "no token has; log in again or unset it");
  settings.offline = IsTrue(FirstOf(environment, {"HF_HUB_OFFLINE"})) ||
                     IsTrue(FirstOf(environment, {"TRANSFORMERS_OFFLINE"}));
  return settings;
}

}  // namespace tandem::hub

#include "net/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tandem::net {
namespace {

constexpr size_t kMaxUrlBytes = 16 << 10;  // signed redirects are long

bool HasControlOrSpace(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
}

Status TakeAuthority(std::string_view text, std::string_view whole, Url& url) {
  const auto wrong = [&](std::string_view what) {
    return Err(Code::kInvalidArgument, "the URL '{}' {}", whole.substr(0, 200), what);
  };
  if (text.find('@') != std::string_view::npos) return wrong("holds a user name, which is refused");
  std::string_view host = text;
  std::string_view port;
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return wrong("names no host");
  url.host = host;
  std::transform(url.host.begin(), url.host.end(), url.host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  url.port = url.tls ? 443 : 80;
  if (port.empty()) return {};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
    return wrong("has a port that is no number from 1 to 65535");
  return {};
}

}  // namespace

std::string Url::Authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::ToString() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", Authority(), target);
}

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (text.size() > kMaxUrlBytes || HasControlOrSpace(text))
    return Err(Code::kInvalidArgument, "a URL holds spaces or control characters, or is too long");
  if (rest.starts_with("https://")) {
    url.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return Err(Code::kInvalidArgument, "the URL '{}' starts neither with http:// nor https://",
               text.substr(0, 200));
  }
  rest = rest.substr(0, rest.find('#'));
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  TRY(TakeAuthority(rest.substr(0, end), text, url));
  if (end < rest.size()) url.target = rest.substr(end);
  if (url.target.front() == '?') url.target.insert(0, "/");
  return url;
}

Result<Url> ResolveUrl(const Url& base, std::string_view location) {
  if (location.starts_with("//"))
    return ParseUrl(fmt::format("{}:{}", base.tls ? "https" : "http", location));
  if (!location.starts_with('/')) return ParseUrl(location);
  Url url = base;
  url.target.clear();
  return ParseUrl(fmt::format("{}{}", url.ToString(), location));
}

std::string PercentEncode(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (std::isalnum(byte) != 0 && byte < 0x80) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || (keep_slash && c == '/');
    if (plain)
      out.push_back(c);
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

}  // namespace tandem::net

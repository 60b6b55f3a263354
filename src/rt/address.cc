#include <charconv>

#include "rt/stream.h"

namespace tandem::rt {

std::string Address::ToString() const {
  if (IsUnix()) return host;
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<Address> Address::Parse(std::string_view text) {
  const auto wrong = [&] {
    return Err(Code::kInvalidArgument,
               "'{}' is not an address; write host:port, [v6]:port, unix:/path or unix:@name",
               text);
  };
  if (text.starts_with("unix:")) {
    // sun_path holds 108 bytes, one of them the terminator.
    constexpr size_t kMaxUnixPath = 107;
    const std::string_view path = text.substr(5);
    if (path.empty() || path == "@" || path.size() > kMaxUnixPath) return wrong();
    return Address{std::string(text), 0};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return wrong();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();
  }
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size()) return wrong();
  return Address{std::string(host), port};
}

}  // namespace tandem::rt

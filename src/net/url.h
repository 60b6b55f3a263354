// Absolute http and https URLs (RFC 3986, without user info), as far as a client needs them.
#ifndef TANDEM_NET_URL_H_
#define TANDEM_NET_URL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::net {

struct Url {
  bool tls = false;
  std::string host;  // lower case; an IPv6 address without its brackets
  uint16_t port = 0;
  std::string target = "/";  // path and query

  std::string Authority() const;  // what the host header says
  std::string ToString() const;
  // Whether secrets meant for the one may go to the other.
  bool SameOrigin(const Url& other) const {
    return tls == other.tls && host == other.host && port == other.port;
  }
};

// kInvalidArgument for other schemes, user info, control characters and what has no host.
Result<Url> ParseUrl(std::string_view text);
// The value of a location header: an absolute URL, or a path on the same host.
Result<Url> ResolveUrl(const Url& base, std::string_view location);
// Everything but letters, digits and "-._~" as %XX; '/' is kept if `keep_slash`.
std::string PercentEncode(std::string_view text, bool keep_slash);

}  // namespace tandem::net

#endif  // TANDEM_NET_URL_H_

// What a server checks of a request's head before it trusts the body's framing, and reads from it.
#ifndef TANDEM_NET_REQUEST_HEAD_H_
#define TANDEM_NET_REQUEST_HEAD_H_

#include <string>
#include <string_view>

#include "net/http_message.h"
#include "net/http_parser.h"

namespace tandem::net {

// Refuses what servers behind and before this one could understand differently (RFC 9112, 3.2 and
// 6.1): a transfer coding other than one final "chunked", no Host or several. Refuses encoded
// bodies, which nothing here decodes. Status 0: the head is fine.
HttpParser::Failure CheckRequestHead(const HttpHeaders& headers, bool http11);

// The path and query of a target: "http://host/a?b" and "/a?b" -> "/a?b". A view into `target`, or
// "/" for an absolute target without a path.
std::string_view OriginForm(std::string_view target);

}  // namespace tandem::net

#endif  // TANDEM_NET_REQUEST_HEAD_H_

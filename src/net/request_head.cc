#include "net/request_head.h"

#include <fmt/format.h>

#include <vector>

namespace tandem::net {
namespace {

constexpr size_t kShown = 60;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The elements of every field of that name, empty ones included.
std::vector<std::string_view> ListOf(const HttpHeaders& headers, std::string_view name) {
  std::vector<std::string_view> elements;
  for (const auto& [key, value] : headers.fields()) {
    if (!EqualsIgnoreCase(key, name)) continue;
    std::string_view rest = value;
    for (size_t comma = 0; comma != std::string_view::npos; rest.remove_prefix(comma + 1)) {
      comma = rest.find(',');
      elements.push_back(Trim(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
    }
  }
  return elements;
}

HttpParser::Failure CheckTransferCodings(const HttpHeaders& headers, bool http11) {
  const auto codings = ListOf(headers, "transfer-encoding");
  if (codings.empty()) return {};
  if (!http11) return {400, "transfer-encoding came with HTTP/1.0, which has none; send HTTP/1.1"};
  if (!EqualsIgnoreCase(codings.back(), "chunked"))
    return {400, fmt::format("the last transfer coding is '{}', which leaves the body's length "
                             "open; send transfer-encoding: chunked or a content-length",
                             codings.back().substr(0, kShown))};
  if (codings.size() == 1) return {};
  if (EqualsIgnoreCase(codings.front(), "chunked"))
    return {400, "transfer-encoding names more than one final 'chunked'; send it once"};
  return {501, fmt::format("the transfer coding '{}' is not supported; send transfer-encoding: "
                           "chunked alone or a content-length",
                           codings.front().substr(0, kShown))};
}

}  // namespace

HttpParser::Failure CheckRequestHead(const HttpHeaders& headers, bool http11) {
  if (auto failure = CheckTransferCodings(headers, http11); failure.status != 0) return failure;
  size_t hosts = 0;
  for (const auto& field : headers.fields()) hosts += EqualsIgnoreCase(field.first, "host") ? 1 : 0;
  if (hosts > 1) return {400, "the request has more than one host header; send it once"};
  if (hosts == 0 && http11)
    return {400, "the request has no host header, which HTTP/1.1 demands; send one"};
  for (const std::string_view coding : ListOf(headers, "content-encoding"))
    if (!coding.empty() && !EqualsIgnoreCase(coding, "identity"))
      return {415, fmt::format("the body has the content encoding '{}'; send it without one",
                               coding.substr(0, kShown))};
  return {};
}

std::string_view OriginForm(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size()) continue;
    if (!EqualsIgnoreCase(target.substr(0, scheme.size()), scheme)) continue;
    const size_t end = target.find_first_of("/?", scheme.size());
    return end == std::string_view::npos ? "/" : target.substr(end);
  }
  return target;
}

}  // namespace tandem::net

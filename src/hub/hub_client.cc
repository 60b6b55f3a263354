#include "hub/hub_client.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "hub/model_id.h"
#include "hub/repo_cache.h"
#include "wire/json.h"

namespace tandem::hub {
namespace {

constexpr int kMaxRedirects = 6;
constexpr size_t kMaxListingBytes = 64u << 20;
constexpr size_t kMaxErrorBytes = 1u << 20;
constexpr size_t kMaxListedFiles = 100'000;
constexpr Duration kLongestPause = std::chrono::seconds(10);

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::optional<uint64_t> NumberIn(std::optional<std::string_view> text) {
  uint64_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

// W/"abc" -> abc
std::string_view BareEtag(std::string_view text) {
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return text;
}

// What the hub refused, with what to do about it.
Error Refusal(const net::HttpResponse& response, const net::Url& url, bool with_token) {
  const auto said = response.headers.Find("x-error-code");
  const std::string reason = said ? fmt::format(" ({})", said->substr(0, 60)) : std::string();
  const int status = response.status;
  const std::string at = fmt::format("{} answers {}{}", url.Authority(), status, reason);
  if (status == 401 || (status == 403 && !with_token))
    return {
        Code::kNotFound,
        fmt::format("{}: there is no such repository, or it is private or gated. Check its name; "
                    "for a gated one accept its terms on its page, {}",
                    at,
                    with_token ? "and see that the token (HF_TOKEN) is valid and may read it"
                               : "then set HF_TOKEN to a token that may read it"),
        "HF_TOKEN"};
  if (status == 403)
    return {Code::kNotFound,
            fmt::format("{}: the token (HF_TOKEN) may not read it: accept the terms on the "
                        "repository's page, or use a token with that right",
                        at),
            "HF_TOKEN"};
  if (status == 404 && said == "RevisionNotFound")
    return {Code::kNotFound, fmt::format("{}: it has no such revision", at), "--revision"};
  if (status == 404)
    return {Code::kNotFound,
            fmt::format("{}: nothing is there; check the name's spelling, capitals included", at),
            {}};
  if (status == 408 || status == 429 || status >= 500)
    return {Code::kUnavailable, fmt::format("{}; try again later", at), {}};
  return {Code::kUnsupported, fmt::format("{}, which is not understood", at), {}};
}

}  // namespace

bool MayPass(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kConnectionLost;
}

void Pause(const Retry& retry, int failed) {
  const Duration pause = std::min(retry.first_pause * (1 << std::min(failed, 10)), kLongestPause);
  usleep(static_cast<useconds_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(pause).count()));
}

net::Url HubClient::At(std::string_view path) const {
  net::Url url = settings_.endpoint;
  url.target += path;
  return url;
}

Result<net::HttpResponse> HubClient::Send(net::WebRequest request, bool leave_host) const {
  for (int redirects = 0;; ++redirects) {
    net::WebRequest one = request;
    one.headers.Add("user-agent", "tandem");
    if (!settings_.token.empty() && one.url.SameOrigin(settings_.endpoint))
      one.headers.Add("authorization", "Bearer " + settings_.token);
    // Only the last answer's body and head are the caller's.
    if (one.on_head)
      one.on_head = [&](int status, const net::HttpHeaders& headers) {
        return status < 300 ? request.on_head(status, headers) : Status();
      };
    TRY_ASSIGN(net::HttpResponse response, net::WebSend(one));
    const auto location = response.headers.Find("location");
    if (!IsRedirect(response.status) || !location) return response;
    if (redirects == kMaxRedirects)
      return Err(Code::kUnsupported, "{} redirects in circles", request.url.Authority());
    TRY_ASSIGN(const net::Url next, net::ResolveUrl(one.url, *location));
    if (one.url.tls && !next.tls)
      return Err(Code::kIncompatible, "{} redirects to {} without TLS, which is refused",
                 one.url.Authority(), next.Authority());
    if (!leave_host && !next.SameOrigin(one.url)) return response;
    request.url = next;
  }
}

Result<net::HttpResponse> HubClient::Get(net::WebRequest request) const {
  const net::Url url = request.url;
  TRY_ASSIGN(net::HttpResponse response, Send(std::move(request), true));
  if (response.status >= 200 && response.status < 300) return response;
  return std::unexpected(Refusal(response, url, !settings_.token.empty()));
}

// Attempts again where it may help. A hub that cannot be reached at all is said at once.
template <class F>
auto HubClient::Repeatedly(F attempt) const -> decltype(attempt()) {
  for (int failed = 0;; ++failed) {
    auto result = attempt();
    if (result || !MayPass(result.error()) || failed + 1 >= std::min(retry_.attempts, 4))
      return result;
    Pause(retry_, failed);
  }
}

Result<RepoInfo> HubClient::Info(const std::string& repo, const std::string& revision) const {
  net::WebRequest request;
  request.url =
      At(fmt::format("/api/models/{}/revision/{}?blobs=true", net::PercentEncode(repo, true),
                     net::PercentEncode(revision, false)));
  request.max_body_bytes = kMaxListingBytes;
  TRY_ASSIGN(const net::HttpResponse response, Repeatedly([&] { return Get(request); }));
  const auto json = wire::ParseJson(response.body);
  const wire::Json* sha = json ? json->Find("sha") : nullptr;
  const wire::Json* siblings = json ? json->Find("siblings") : nullptr;
  if (sha == nullptr || !sha->IsString() || !IsCommit(sha->AsString()) || siblings == nullptr ||
      !siblings->IsArray() || siblings->AsArray().size() > kMaxListedFiles)
    return Err(Code::kUnsupported, "{} does not describe {} as a Hugging Face hub does",
               settings_.endpoint.ToString(), repo);
  RepoInfo info;
  info.commit = sha->AsString();
  for (const wire::Json& sibling : siblings->AsArray()) {
    const wire::Json* name = sibling.Find("rfilename");
    if (name == nullptr || !name->IsString() || !IsRepoPath(name->AsString())) continue;
    const wire::Json* size = sibling.Find("size");
    info.files.push_back({name->AsString(), size != nullptr && size->IsInt() && size->AsInt() > 0
                                                ? static_cast<uint64_t>(size->AsInt())
                                                : 0});
  }
  return info;
}

Result<FileMeta> HubClient::Describe(const std::string& repo, const std::string& commit,
                                     const std::string& path) const {
  net::WebRequest request;
  request.method = "HEAD";
  request.url = At(fmt::format("/{}/resolve/{}/{}", net::PercentEncode(repo, true), commit,
                               net::PercentEncode(path, true)));
  request.max_body_bytes = kMaxErrorBytes;
  TRY_ASSIGN(const net::HttpResponse response, Repeatedly([&]() -> Result<net::HttpResponse> {
               TRY_ASSIGN(net::HttpResponse answer, Send(request, false));
               if (answer.status >= 400)
                 return std::unexpected(Refusal(answer, request.url, !settings_.token.empty()));
               return answer;
             }));
  const net::HttpHeaders& headers = response.headers;
  FileMeta meta;
  meta.location = request.url;
  if (const auto location = headers.Find("location"); location && IsRedirect(response.status)) {
    TRY_ASSIGN(meta.location, net::ResolveUrl(request.url, *location));
  }
  const auto linked = headers.Find("x-linked-etag");
  const auto etag = linked ? linked : headers.Find("etag");
  // The length of a redirect is not that of the file.
  const auto size = NumberIn(headers.Find(headers.Find("x-linked-size") || response.status >= 300
                                              ? "x-linked-size"
                                              : "content-length"));
  if (!etag || !size || !IsBlobName(BareEtag(*etag)))
    return Err(Code::kUnsupported,
               "{} does not say etag and size of '{}' as a Hugging Face hub does",
               settings_.endpoint.ToString(), path);
  meta.etag = BareEtag(*etag);
  meta.size = *size;
  meta.sha256 =
      meta.etag.size() == 64 && std::all_of(meta.etag.begin(), meta.etag.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      });
  return meta;
}

}  // namespace tandem::hub

#include "frontend/request_context.h"

#include <time.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "frontend/error_body.h"

namespace tandem::frontend {
namespace {

constexpr size_t kMaxIdBytes = 256;
constexpr std::string_view kIdHeader = "x-request-id";
constexpr std::string_view kTimeoutHeader = "x-request-timeout-ms";

bool IsPlainId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string MakeId(rt::Runtime& runtime) {
  std::string id;
  id.reserve(32);
  AppendHex(runtime.Random(), id);
  AppendHex(runtime.Random(), id);
  return id;
}

// Seconds since 1970 of the local wall clock, for templates that print the date.
int64_t LocalSeconds(const rt::Runtime& runtime) {
  const time_t utc = static_cast<time_t>(runtime.UnixMillis() / 1000);
  tm local{};
  return localtime_r(&utc, &local) == nullptr ? utc : utc + local.tm_gmtoff;
}

}  // namespace

RenderSettings RenderSettingsOf(const Services& services) {
  const FrontendOptions& options = services.options;
  return {.now = options.template_clock ? *options.template_clock : LocalSeconds(services.runtime),
          .trust_request_template = options.trust_request_chat_template};
}

RequestContext::RequestContext(Services& services, const net::HttpRequest& request)
    : services_(services),
      request_(request),
      begin_(services.runtime.Now()),
      deadline_(begin_ + services.options.request_timeout),
      id_(MakeId(services.runtime)),
      cancel_(request.cancel) {}

Status RequestContext::ReadHeaders() {
  if (const auto id = request_.headers.Find(kIdHeader)) {
    if (!IsPlainId(*id))
      return FieldErr(kIdHeader, "{} must be 1 to {} printable ASCII characters without spaces",
                      kIdHeader, kMaxIdBytes);
    id_ = *id;
    id_given_ = true;
  }
  if (const auto text = request_.headers.Find(kTimeoutHeader)) {
    int64_t millis = 0;
    const auto read = std::from_chars(text->data(), text->data() + text->size(), millis);
    if (read.ec != std::errc() || read.ptr != text->data() + text->size() || millis < 1)
      return FieldErr(kTimeoutHeader, "{} must be a whole number of milliseconds, at least 1",
                      kTimeoutHeader);
    const int64_t longest = ToMillis(services_.options.request_timeout);
    deadline_ = begin_ + std::chrono::milliseconds(std::min(millis, longest));
  }
  const int64_t allowed = ToMillis(deadline_ - begin_);
  timer_ = services_.runtime.RunAt(deadline_, [this, allowed] {
    cancel_.Cancel({Code::kDeadlineExceeded,
                    fmt::format("the request did not end within its {} ms", allowed),
                    {}});
  });
  return {};
}

Status RequestContext::CheckContentType() const {
  const auto type = request_.headers.Find("content-type");
  if (!type || type->starts_with("application/json")) return {};
  return FieldErr("content-type",
                  "the content type is '{}'; send application/json (with curl: add -H "
                  "'content-type: application/json')",
                  type->substr(0, 100));
}

net::HttpHeaders RequestContext::Headers(std::string content_type) const {
  net::HttpHeaders headers;
  headers.Reserve(4);
  headers.Add("content-type", std::move(content_type));
  headers.Add(std::string(kIdHeader), id_);
  return headers;
}

Error RequestContext::ForClient(Error error) const {
  if (error.code == Code::kCancelled && Stopping())
    return {Code::kUnavailable, "the server is stopping; send the request again in a moment", {}};
  // A worker that was lost is, to the client, a service that is not there right now.
  if (error.code == Code::kConnectionLost) error.code = Code::kUnavailable;
  return error;
}

rt::Task<Status> RequestContext::RespondError(net::HttpResponder& responder, Error error) const {
  error = ForClient(std::move(error));
  const int status = StatusOf(error, services_.options.overload_status);
  net::HttpHeaders headers = Headers("application/json");
  if (error.code == Code::kOverloaded || error.code == Code::kUnavailable)
    headers.Add("retry-after", "1");
  return responder.Respond(status, std::move(headers), ErrorBody(error, status));
}

rt::Task<Status> RequestContext::RespondJson(net::HttpResponder& responder,
                                             std::string body) const {
  return responder.Respond(200, Headers("application/json"), std::move(body));
}

}  // namespace tandem::frontend

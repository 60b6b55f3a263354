#include "apps/chat.h"

#include "wire/json.h"
#include "wire/json_writer.h"

namespace tandem::apps {
namespace {

constexpr size_t kMaxEventBytes = 1 << 20;

// The message of an OpenAI error body, or the body itself.
std::string ErrorText(std::string_view body) {
  if (const auto json = wire::ParseJson(body))
    if (const wire::Json* error = json->Find("error"))
      if (const wire::Json* message = error->Find("message"); message && message->IsString())
        return message->AsString();
  return std::string(body.substr(0, 500));
}

}  // namespace

std::vector<std::string> SseReader::Feed(std::string_view bytes) {
  constexpr std::string_view kData = "data: ";
  std::vector<std::string> events;
  partial_ += bytes;
  size_t start = 0;
  for (size_t end = partial_.find('\n'); end != std::string::npos;
       end = partial_.find('\n', start)) {
    std::string_view line(partial_.data() + start, end - start);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(kData)) events.emplace_back(line.substr(kData.size()));
    start = end + 1;
  }
  partial_.erase(0, start);
  if (partial_.size() > kMaxEventBytes) partial_.clear();
  return events;
}

Result<std::string> ChunkText(const std::string& data) {
  if (data == "[DONE]") return std::string();
  TRY_ASSIGN(const wire::Json json, wire::ParseJson(data));
  if (json.Find("error") != nullptr) return Err(Code::kInternal, "{}", ErrorText(data));
  const wire::Json* choices = json.Find("choices");
  if (choices == nullptr || !choices->IsArray() || choices->AsArray().empty()) return std::string();
  const wire::Json* delta = choices->AsArray().front().Find("delta");
  const wire::Json* content = delta == nullptr ? nullptr : delta->Find("content");
  return content != nullptr && content->IsString() ? content->AsString() : std::string();
}

Chat::Chat(rt::Runtime& runtime, rt::Address address, ChatOptions options)
    : options_(std::move(options)), client_(runtime, std::move(address)) {
  if (!options_.system.empty()) turns_.emplace_back("system", options_.system);
}

std::string Chat::RequestBody() const {
  std::string body;
  wire::JsonWriter json(body);
  json.BeginObject().Key("model").String(options_.model).Key("stream").Bool(true);
  json.Key("max_tokens").Int(options_.max_tokens).Key("temperature").Double(options_.temperature);
  if (options_.seed) json.Key("seed").Int(*options_.seed);
  json.Key("messages").BeginArray();
  for (const auto& [role, text] : turns_)
    json.BeginObject().Key("role").String(role).Key("content").String(text).EndObject();
  json.EndArray().EndObject();
  return body;
}

rt::Task<Status> Chat::Ask(std::string message, rt::CancelToken cancel,
                           std::function<void(std::string_view)> on_text) {
  const size_t turns_before = turns_.size();
  turns_.emplace_back("user", std::move(message));
  SseReader reader;
  std::string answer;
  Status failed;
  net::HttpClientRequest request;
  request.method = "POST";
  request.target = "/v1/chat/completions";
  request.headers.Add("content-type", "application/json");
  request.body = RequestBody();
  request.cancel = std::move(cancel);
  request.on_body = [&](std::string_view bytes) {
    for (const std::string& event : reader.Feed(bytes)) {
      const auto text = ChunkText(event);
      if (!text) failed = std::unexpected(text.error());
      if (!text || text->empty()) continue;
      answer += *text;
      on_text(*text);
    }
  };
  const auto response = co_await client_.Send(std::move(request));
  if (!response) {
    failed = std::unexpected(response.error());
  } else if (response->status != 200) {
    failed = Err(Code::kInvalidArgument, "{}", ErrorText(response->body));
  }
  if (answer.empty())
    turns_.resize(turns_before);
  else
    turns_.emplace_back("assistant", std::move(answer));
  co_return failed;
}

}  // namespace tandem::apps

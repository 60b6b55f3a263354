#include "frontend/answer_writer.h"

#include <algorithm>

#include "frontend/error_body.h"
#include "text/utf8.h"
#include "wire/json_writer.h"

namespace tandem::frontend {

using wire::AppendJsonNumber;
using wire::AppendJsonString;

namespace {

// What JSON can say where a log probability is minus infinity.
constexpr float kLeastLogprob = -9999.0f;

// Names, numbers and punctuation around what is known; only first guesses.
constexpr size_t kRoomForHead = 128;
constexpr size_t kRoomForChoice = 192;
constexpr size_t kRoomForUsage = 160;

void AppendInt(std::string& out, int64_t value) { AppendJsonNumber(out, value); }

std::string Head(std::string_view id, std::string_view object, int64_t created,
                 std::string_view model) {
  std::string head;
  head.reserve(kRoomForHead + id.size() + model.size());
  head += "{\"id\":";
  AppendJsonString(head, id);
  head += ",\"object\":\"";
  head += object;
  head += "\",\"created\":";
  AppendInt(head, created);
  head += ",\"model\":";
  AppendJsonString(head, model);
  head += ",\"choices\":[";
  return head;
}

void AppendUsageObject(std::string& out, const Usage& usage) {
  out += "\"usage\":{\"prompt_tokens\":";
  AppendInt(out, usage.prompt_tokens);
  out += ",\"total_tokens\":";
  AppendInt(out, usage.prompt_tokens + usage.completion_tokens);
  out += ",\"completion_tokens\":";
  AppendInt(out, usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  AppendInt(out, usage.cached_tokens);
  out += "}}";
}

void AppendLogprob(std::string& out, float logprob) {
  AppendJsonNumber(out, std::max(logprob, kLeastLogprob));
}

}  // namespace

AnswerWriter::AnswerWriter(Endpoint endpoint, std::string_view id, int64_t created,
                           std::string_view model, const GenerateParams& params,
                           const ModelAssets& assets)
    : endpoint_(endpoint), params_(params), assets_(assets) {
  const bool chat = endpoint == Endpoint::kChat;
  if (params.stream)
    event_head_ =
        "data: " + Head(id, chat ? "chat.completion.chunk" : "text_completion", created, model);
  else
    whole_head_ = Head(id, chat ? "chat.completion" : "text_completion", created, model);
}

std::string AnswerWriter::Whole(std::span<const ChoiceAnswer> choices, const Usage& usage,
                                std::string_view nvext) const {
  size_t room = whole_head_.size() + kRoomForUsage + nvext.size();
  for (const ChoiceAnswer& choice : choices) room += choice.delta.text.size() + kRoomForChoice;
  std::string out;
  out.reserve(room);
  out += whole_head_;
  for (size_t i = 0; i < choices.size(); ++i) {
    const ChoiceDelta& delta = choices[i].delta;
    out += i == 0 ? "{\"index\":" : ",{\"index\":";
    AppendInt(out, static_cast<int64_t>(i));
    if (endpoint_ == Endpoint::kChat) {
      out += ",\"message\":{\"role\":\"assistant\",\"content\":";
      AppendJsonString(out, delta.text);
      out += ",\"refusal\":null}";
    } else {
      out += ",\"text\":";
      AppendJsonString(out, delta.text);
    }
    AppendLogprobs(out, delta);
    AppendFinish(out, delta);
    if (params_.return_token_ids) {
      AppendIds(out, "token_ids", delta.tokens);
      AppendIds(out, "prompt_token_ids", choices[i].prompt);
    }
    out.push_back('}');
  }
  out += "],";
  AppendUsageObject(out, usage);
  // The reference shows a chat's prompt ids beside the choices.
  if (params_.return_token_ids && endpoint_ == Endpoint::kChat && !choices.empty())
    AppendIds(out, "prompt_token_ids", choices.front().prompt);
  if (!nvext.empty()) {
    out += ",\"nvext\":";
    out += nvext;
  }
  out.push_back('}');
  return out;
}

void AnswerWriter::AppendRole(std::string& out, size_t index,
                              std::span<const TokenId> prompt) const {
  out += event_head_;
  out += "{\"index\":";
  AppendInt(out, static_cast<int64_t>(index));
  out +=
      ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
      "\"finish_reason\":null}]";
  if (params_.return_token_ids) AppendIds(out, "prompt_token_ids", prompt);
  if (params_.continuous_usage_stats) {
    out.push_back(',');
    AppendUsageObject(out, {.prompt_tokens = static_cast<int64_t>(prompt.size())});
  }
  out += "}\n\n";
}

void AnswerWriter::AppendDelta(std::string& out, size_t index, const ChoiceDelta& delta,
                               std::span<const TokenId> prompt, const Usage* usage,
                               std::string_view nvext) const {
  out += event_head_;
  out += "{\"index\":";
  AppendInt(out, static_cast<int64_t>(index));
  if (endpoint_ == Endpoint::kChat) {
    out += ",\"delta\":{\"content\":";
    AppendJsonString(out, delta.text);
    out.push_back('}');
  } else {
    out += ",\"text\":";
    AppendJsonString(out, delta.text);
  }
  AppendLogprobs(out, delta);
  AppendFinish(out, delta);
  if (params_.return_token_ids) {
    AppendIds(out, "token_ids", delta.tokens);
    if (!prompt.empty()) AppendIds(out, "prompt_token_ids", prompt);
  }
  out += "}]";
  if (usage != nullptr) {
    out.push_back(',');
    AppendUsageObject(out, *usage);
  }
  if (!nvext.empty()) {
    out += ",\"nvext\":";
    out += nvext;
  }
  out += "}\n\n";
}

void AnswerWriter::AppendUsage(std::string& out, const Usage& usage) const {
  out += event_head_;
  out += "],";
  AppendUsageObject(out, usage);
  out += "}\n\n";
}

void AnswerWriter::AppendError(std::string& out, const Error& error) {
  out += "data: ";
  out += ErrorBody(error, StatusOf(error));
  out += "\n\n";
}

void AnswerWriter::AppendDone(std::string& out) { out += "data: [DONE]\n\n"; }

void AnswerWriter::AppendLogprobs(std::string& out, const ChoiceDelta& delta) const {
  if (params_.logprobs < 0 || delta.logprobs.empty()) {
    out += ",\"logprobs\":null";
    return;
  }
  out += ",\"logprobs\":";
  if (endpoint_ == Endpoint::kChat)
    AppendChatLogprobs(out, delta);
  else
    AppendCompletionLogprobs(out, delta);
}

void AnswerWriter::AppendTokenFields(std::string& out, TokenId id, float logprob) const {
  const std::string name = TokenName(params_, assets_, id);
  out += "\"token\":";
  AppendJsonString(out, name);
  out += ",\"logprob\":";
  AppendLogprob(out, logprob);
  out += ",\"bytes\":[";
  const std::string_view bytes =
      assets_.tokenizer ? assets_.tokenizer->TokenBytes(id) : std::string_view();
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendInt(out, static_cast<uint8_t>(bytes[i]));
  }
  out.push_back(']');
}

void AnswerWriter::AppendChatLogprobs(std::string& out, const ChoiceDelta& delta) const {
  out += "{\"content\":[";
  for (size_t i = 0; i < delta.logprobs.size(); ++i) {
    const wire::TokenLogprob& logprob = delta.logprobs[i];
    out += i == 0 ? "{" : ",{";
    AppendTokenFields(out, logprob.token, logprob.logprob);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < logprob.top.size(); ++k) {
      out += k == 0 ? "{" : ",{";
      AppendTokenFields(out, logprob.top[k].first, logprob.top[k].second);
      out.push_back('}');
    }
    out += "]}";
  }
  out += "]}";
}

void AnswerWriter::AppendCompletionLogprobs(std::string& out, const ChoiceDelta& delta) const {
  std::string offsets;
  std::string values;
  std::string names;
  std::string tops;
  size_t offset = delta.text_offset;
  for (size_t i = 0; i < delta.logprobs.size(); ++i) {
    const wire::TokenLogprob& logprob = delta.logprobs[i];
    for (std::string* list : {&offsets, &values, &names, &tops})
      if (i > 0) list->push_back(',');
    const std::string name = TokenName(params_, assets_, logprob.token);
    AppendInt(offsets, static_cast<int64_t>(offset));
    offset += text::CountCodePoints(name);
    AppendLogprob(values, logprob.logprob);
    AppendJsonString(names, name);
    // One member per text: of tokens that look the same the likeliest is shown.
    std::vector<std::string> shown = {name};
    tops.push_back('{');
    AppendJsonString(tops, name);
    tops.push_back(':');
    AppendLogprob(tops, logprob.logprob);
    for (const auto& [id, value] : logprob.top) {
      if (id == logprob.token) continue;
      std::string other = TokenName(params_, assets_, id);
      if (std::find(shown.begin(), shown.end(), other) != shown.end()) continue;
      tops.push_back(',');
      AppendJsonString(tops, other);
      tops.push_back(':');
      AppendLogprob(tops, value);
      shown.push_back(std::move(other));
    }
    tops.push_back('}');
  }
  out += "{\"text_offset\":[" + offsets + "],\"token_logprobs\":[" + values + "],\"tokens\":[" +
         names + "],\"top_logprobs\":[" + tops + "]}";
}

void AnswerWriter::AppendFinish(std::string& out, const ChoiceDelta& delta) const {
  if (!delta.finished) {
    out += ",\"finish_reason\":null";
    return;
  }
  out += ",\"finish_reason\":\"";
  out += delta.finish_reason;
  out += "\",\"stop_reason\":";
  if (!delta.stop_string.empty())
    AppendJsonString(out, delta.stop_string);
  else if (delta.stop_token)
    AppendInt(out, *delta.stop_token);
  else
    out += "null";
}

void AnswerWriter::AppendIds(std::string& out, std::string_view name,
                             std::span<const TokenId> ids) const {
  out += ",\"";
  out += name;
  out += "\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendInt(out, ids[i]);
  }
  out.push_back(']');
}

}  // namespace tandem::frontend

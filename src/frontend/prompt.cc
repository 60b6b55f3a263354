#include "frontend/prompt.h"

#include <algorithm>
#include <utility>

namespace tandem::frontend {

using text::Value;
using wire::Json;

namespace {

// A template that came with a request gets less time than the model's own.
constexpr uint64_t kForeignTemplateSteps = 2'000'000;
constexpr double kGreedyBelow = 1e-5;
constexpr double kLeastTemperature = 0.01;

// Templates expect the text itself; parts are joined by line breaks, as the reference does.
std::string JoinedText(const Json& content) {
  if (content.IsString()) return content.AsString();
  if (!content.IsArray()) return {};
  std::string text;
  for (const Json& part : content.AsArray()) {
    if (&part != &content.AsArray().front()) text.push_back('\n');
    text += part.IsString() ? part.AsString() : part.Find("text")->AsString();
  }
  return text;
}

// Clients send the arguments of a tool call as JSON text; templates want the object.
Value ToolCallValue(const Json& call) {
  text::Dict out;
  for (const Json::Member& member : call.AsObject()) {
    if (member.key != "function" || !member.value.IsObject()) {
      out.Set(member.key, ToValue(member.value));
      continue;
    }
    text::Dict function;
    for (const Json::Member& part : member.value.AsObject()) {
      Value value = ToValue(part.value);
      if (part.key == "arguments" && part.value.IsString()) {
        const auto arguments = wire::ParseJson(
            part.value.AsString().empty() ? std::string_view("{}") : part.value.AsString());
        if (arguments) value = ToValue(*arguments);
      }
      function.Set(part.key, std::move(value));
    }
    out.Set(member.key, Value::FromDict(std::move(function)));
  }
  return Value::FromDict(std::move(out));
}

Value MessageValue(const Json& message) {
  text::Dict out;
  bool has_content = false;
  for (const Json::Member& member : message.AsObject()) {
    if (member.key == "content") {
      has_content = true;
      static const Value kContent = Value::String("content");
      out.Set(kContent, Value::String(JoinedText(member.value)));
    } else if (member.key == "role") {
      static const Value kRole = Value::String("role");
      out.Set(kRole, ToValue(member.value));
    } else if (member.key == "tool_calls" && member.value.IsArray()) {
      std::vector<Value> calls;
      for (const Json& call : member.value.AsArray()) calls.push_back(ToolCallValue(call));
      out.Set(member.key, Value::List(std::move(calls)));
    } else {
      out.Set(member.key, ToValue(member.value));
    }
  }
  if (!has_content) out.Set("content", Value::String(""));
  return Value::FromDict(std::move(out));
}

std::optional<std::string> TokenText(const text::Tokenizer& tokenizer, std::optional<int32_t> id) {
  if (!id) return std::nullopt;
  return std::string(tokenizer.TokenText(*id));
}

text::RenderInput MakeInput(const ModelAssets& assets, const ChatPrompt& prompt, int64_t now) {
  text::RenderInput input;
  std::vector<Value> messages;
  messages.reserve(prompt.messages.AsArray().size());
  for (const Json& message : prompt.messages.AsArray()) messages.push_back(MessageValue(message));
  input.messages = Value::List(std::move(messages));
  input.tools = ToValue(prompt.tools);
  input.documents = ToValue(prompt.documents);
  input.add_generation_prompt = prompt.add_generation_prompt;
  input.continue_final_message = prompt.continue_final_message;
  if (assets.tokenizer) {
    const text::TokenizerSpec& spec = assets.tokenizer->spec();
    input.bos_token = TokenText(*assets.tokenizer, spec.bos_id);
    input.eos_token = TokenText(*assets.tokenizer, spec.eos_id);
    input.unk_token = TokenText(*assets.tokenizer, spec.unk_id);
    input.pad_token = TokenText(*assets.tokenizer, spec.pad_id);
  }
  for (const Json::Member& variable : prompt.variables)
    input.kwargs.emplace_back(variable.key, ToValue(variable.value));
  input.now = now;
  return input;
}

// The sequences of ids that spell a word, at the start of a text and after a space.
void AppendBadWord(const text::Tokenizer& tokenizer, std::string_view word,
                   std::vector<std::vector<TokenId>>& out) {
  const text::EncodeOptions plain{.add_special_tokens = false, .parse_special = true};
  const size_t start = word.find_first_not_of(' ');
  if (start != std::string_view::npos) word.remove_prefix(start);
  std::vector<TokenId> bare = tokenizer.Encode(word, plain);
  if (bare.empty()) return;
  std::vector<TokenId> spaced = tokenizer.Encode(fmt::format(" {}", word), plain);
  const bool other_word =
      !spaced.empty() && spaced.front() != bare.front() && spaced.size() == bare.size();
  out.push_back(std::move(bare));
  if (other_word) out.push_back(std::move(spaced));
}

Status ResolveSampling(const GenerateParams& params, const ModelAssets& assets,
                       uint64_t random_seed, wire::Sampling& out) {
  const GenerationDefaults& defaults = assets.defaults;
  const auto resolve = [](const auto& asked, const auto& preset, auto builtin) {
    return asked ? *asked : preset.value_or(builtin);
  };
  out.temperature = resolve(params.temperature, defaults.temperature, 1.0);
  if (out.temperature >= kGreedyBelow)
    out.temperature = std::max(out.temperature, kLeastTemperature);
  if (params.n > 1 && out.temperature < kGreedyBelow)
    return FieldErr("n", "n must be 1 when temperature is 0: all choices would be the same");
  out.top_p = resolve(params.top_p, defaults.top_p, 1.0);
  out.top_k = static_cast<int32_t>(resolve(params.top_k, defaults.top_k, int64_t{0}));
  out.min_p = resolve(params.min_p, defaults.min_p, 0.0);
  out.repetition_penalty = resolve(params.repetition_penalty, defaults.repetition_penalty, 1.0);
  out.presence_penalty = params.presence_penalty;
  out.frequency_penalty = params.frequency_penalty;
  // The reference takes -1 for "none".
  const bool seeded = params.seed && *params.seed != -1;
  out.seed = seeded ? *params.seed : static_cast<int64_t>(random_seed >> 1);
  out.logit_bias = params.logit_bias;
  for (const auto& [id, bias] : params.logit_bias)
    TRY(CheckIds(assets, std::span(&id, 1), "logit_bias"));
  out.allowed_token_ids = params.allowed_token_ids;
  TRY(CheckIds(assets, params.allowed_token_ids, "allowed_token_ids"));
  if (!params.bad_words.empty() && !assets.tokenizer)
    return FieldErr("bad_words", "bad_words needs a tokenizer, which the model lacks");
  for (const std::string& word : params.bad_words)
    AppendBadWord(*assets.tokenizer, word, out.bad_words);
  return {};
}

}  // namespace

Value ToValue(const Json& json) {
  switch (json.type()) {
    case Json::Type::kNull:
      return Value::None();
    case Json::Type::kBool:
      return Value::Bool(json.AsBool());
    case Json::Type::kInt:
      return Value::Int(json.AsInt());
    case Json::Type::kUint:
    case Json::Type::kDouble:
      return Value::Float(json.AsDouble());
    case Json::Type::kString:
      return Value::String(json.AsString());
    case Json::Type::kArray: {
      std::vector<Value> items;
      items.reserve(json.AsArray().size());
      for (const Json& element : json.AsArray()) items.push_back(ToValue(element));
      return Value::List(std::move(items));
    }
    case Json::Type::kObject: {
      text::Dict dict;
      for (const Json::Member& member : json.AsObject())
        dict.Set(member.key, ToValue(member.value));
      return Value::FromDict(std::move(dict));
    }
  }
  return Value::None();
}

Result<std::string> RenderChat(const ModelAssets& assets, const ChatPrompt& prompt, int64_t now) {
  text::RenderInput input = MakeInput(assets, prompt, now);
  if (!prompt.chat_template.empty()) {
    input.limits.steps = kForeignTemplateSteps;
    auto compiled = text::ChatTemplate::Compile(prompt.chat_template);
    if (!compiled) return FieldErr("chat_template", "chat_template: {}", compiled.error().message);
    auto text = compiled->Render(input);
    if (!text) return FieldErr("chat_template", "chat_template: {}", text.error().message);
    return text;
  }
  if (!assets.chat_template)
    return std::unexpected(Error{Code::kUnsupported,
                                 "the model has no chat template; use /v1/completions, or send one "
                                 "in chat_template",
                                 "messages"});
  auto text = assets.chat_template->Render(input);
  if (!text) {
    text.error().param = "messages";
    text.error().message =
        fmt::format("the chat template refused the messages: {}", text.error().message);
  }
  return text;
}

Result<std::vector<TokenId>> EncodeText(const ModelAssets& assets, std::string_view text,
                                        bool add_special_tokens) {
  if (!assets.tokenizer)
    return Err(Code::kUnsupported, "the model has no tokenizer; send the prompt as token ids");
  return assets.tokenizer->Encode(
      text, {.add_special_tokens = add_special_tokens, .parse_special = true});
}

Status CheckIds(const ModelAssets& assets, std::span<const TokenId> ids, std::string_view field) {
  if (!assets.tokenizer) return {};
  const int32_t size = assets.tokenizer->VocabSize();
  for (const TokenId id : ids)
    if (id < 0 || id >= size)
      return FieldErr(field, "{} holds the token id {}; the vocabulary ends at {}", field, id,
                      size - 1);
  return {};
}

Result<wire::GenerateRequest> Resolve(const GenerateParams& params, const ModelAssets& assets,
                                      int64_t prompt_tokens, int64_t max_model_len,
                                      uint64_t random_seed) {
  const auto too_long = [](std::string_view param, std::string message) {
    return std::unexpected(Error{Code::kContextLength, std::move(message), std::string(param)});
  };
  if (prompt_tokens == 0) return FieldErr("prompt", "the prompt has no tokens");
  const int64_t room = max_model_len - prompt_tokens;
  if (room < 1)
    return too_long("input_tokens",
                    fmt::format("this model's maximum context length is {} tokens, with at least "
                                "one for the answer, but the prompt has {}. Shorten the prompt",
                                max_model_len, prompt_tokens));
  if (params.max_tokens && *params.max_tokens > max_model_len)
    return too_long("max_tokens",
                    fmt::format("this model's maximum context length is {} tokens, but max_tokens "
                                "is {}. Ask for fewer",
                                max_model_len, *params.max_tokens));
  wire::GenerateRequest out;
  TRY(ResolveSampling(params, assets, random_seed, out.sampling));
  out.n = static_cast<int32_t>(params.n);
  out.max_tokens = static_cast<int32_t>(std::min(params.max_tokens.value_or(room), room));
  out.min_tokens = std::min(static_cast<int32_t>(params.min_tokens), out.max_tokens);
  out.stop_token_ids = params.stop_token_ids;
  TRY(CheckIds(assets, params.stop_token_ids, "stop_token_ids"));
  out.ignore_eos = params.ignore_eos;
  out.logprobs = static_cast<int32_t>(params.logprobs);
  out.cache_salt = params.cache_salt;
  out.priority = static_cast<int32_t>(params.priority);
  return out;
}

}  // namespace tandem::frontend

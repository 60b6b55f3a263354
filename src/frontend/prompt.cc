#include "frontend/prompt.h"

#include <algorithm>
#include <utility>

#include "frontend/message_values.h"

namespace tandem::frontend {

using text::Value;
using wire::Json;

namespace {

// A template that came with a request gets less time than the model's own.
constexpr uint64_t kForeignTemplateSteps = 2'000'000;
constexpr double kGreedyBelow = 1e-5;
constexpr double kLeastTemperature = 0.01;

std::optional<std::string> TokenText(const text::Tokenizer& tokenizer, std::optional<int32_t> id) {
  if (!id) return std::nullopt;
  return std::string(tokenizer.TokenText(*id));
}

text::RenderInput MakeInput(const ModelAssets& assets, const ChatPrompt& prompt, ContentForm form,
                            int64_t now) {
  text::RenderInput input;
  input.messages = MessagesValue(prompt.messages, form);
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

// A template that came with the request.
Result<std::string> RenderForeign(const ModelAssets& assets, const ChatPrompt& prompt,
                                  const RenderSettings& settings) {
  if (!settings.trust_request_template)
    return FieldErr("chat_template",
                    "chat_template: this server renders the model's own template only; it takes "
                    "those of requests if started with --trust-request-chat-template");
  auto compiled = text::ChatTemplate::Compile(prompt.chat_template);
  if (!compiled) return FieldErr("chat_template", "chat_template: {}", compiled.error().message);
  const ContentForm form =
      ChooseContentForm(*compiled, assets.content_format, TemplateOrigin::kRequest);
  text::RenderInput input = MakeInput(assets, prompt, form, settings.now);
  input.limits.steps = kForeignTemplateSteps;
  auto text = compiled->Render(input);
  if (!text) return FieldErr("chat_template", "chat_template: {}", text.error().message);
  return text;
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

Result<std::string> RenderChat(const ModelAssets& assets, const ChatPrompt& prompt,
                               const RenderSettings& settings) {
  if (!prompt.chat_template.empty()) return RenderForeign(assets, prompt, settings);
  if (!assets.chat_template)
    return std::unexpected(Error{Code::kUnsupported,
                                 "the model has no chat template; use /v1/completions, or start "
                                 "the worker with --chat-template FILE",
                                 "messages"});
  const bool tools = assets.tool_template && !prompt.tools.IsNull();
  const text::ChatTemplate& chosen = tools ? *assets.tool_template : *assets.chat_template;
  auto text = chosen.Render(MakeInput(
      assets, prompt, tools ? assets.tool_content_form : assets.content_form, settings.now));
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
  // The model's own limit holds for every request, as in the reference.
  const int64_t most = std::min(room, assets.defaults.max_new_tokens.value_or(room));
  out.max_tokens = static_cast<int32_t>(std::min(params.max_tokens.value_or(most), most));
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

// Requests of /v1/completions.
#include "frontend/generate_fields.h"

namespace tandem::frontend {
namespace {

using wire::Json;
using F = Field<CompletionRequest>;

constexpr int64_t kMaxAlternatives = 20;

Result<PlainPrompt> ReadIds(const Json& value, std::string_view name) {
  TRY_ASSIGN(std::vector<TokenId> ids, ReadTokenIds(value, name));
  if (ids.empty()) return FieldErr(name, "{} must not be empty", name);
  return PlainPrompt(std::move(ids));
}

Result<PlainPrompt> ReadText(const Json& value, std::string_view name) {
  if (value.AsString().empty()) return FieldErr(name, "{} must not be empty", name);
  return PlainPrompt(value.AsString());
}

Status ReadPrompt(const Json& value, std::string_view name, CompletionRequest& to) {
  constexpr std::string_view kWanted =
      "a string, a list of strings, a list of token ids or a list of lists of token ids";
  if (value.IsString()) {
    TRY_ASSIGN(to.prompts.emplace_back(), ReadText(value, name));
    return {};
  }
  if (!value.IsArray()) return WrongType(name, kWanted, value);
  const Json::Array& list = value.AsArray();
  if (list.empty()) return FieldErr(name, "{} must not be empty", name);
  if (list.front().IsNumber()) {
    TRY_ASSIGN(to.prompts.emplace_back(), ReadIds(value, name));
    return {};
  }
  if (list.size() > kMaxPrompts)
    return FieldErr(name, "{} holds {} prompts; at most {} are accepted", name, list.size(),
                    kMaxPrompts);
  for (const Json& element : list) {
    const std::string path = fmt::format("{}[{}]", name, to.prompts.size());
    // All of them are of the kind of the first.
    if (element.type() != list.front().type() || !(element.IsString() || element.IsArray()))
      return WrongType(path, kWanted, element);
    TRY_ASSIGN(to.prompts.emplace_back(),
               element.IsString() ? ReadText(element, path) : ReadIds(element, path));
  }
  return {};
}

Status ReadLogprobs(const Json& value, std::string_view name, CompletionRequest& to) {
  TRY_ASSIGN(to.params.logprobs, ReadInt(value, name, 0, kMaxAlternatives));
  return {};
}

Status ReadEcho(const Json& value, std::string_view name, CompletionRequest& to) {
  TRY_ASSIGN(to.params.echo, ReadBool(value, name));
  return {};
}

const std::vector<F>& CompletionFields() {
  static const std::vector<F> kFields = {
      {"prompt", F::Custom{ReadPrompt}},
      {"logprobs", F::Custom{ReadLogprobs}},
      {"echo", F::Custom{ReadEcho}},
      {"suffix", Unsupported{{"\"\""}, {}}},
      {"prompt_embeds", Unsupported{{}, "send text or token ids"}},
  };
  return kFields;
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(std::string_view body) {
  constexpr int64_t kDefaultMaxTokens = 16;
  TRY_ASSIGN(const Json json, ParseBody(body));
  CompletionRequest request;
  TRY(ReadMembers(json.AsObject(), Bound{CompletionFields(), request},
                  Bound{GenerateFields(), request.params}));
  if (request.prompts.empty()) return FieldErr("prompt", "prompt is missing");
  if (!request.params.max_tokens) request.params.max_tokens = kDefaultMaxTokens;
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  if (prompts > 1 && prompts * request.params.n > kMaxAnswers)
    return FieldErr("n", "{} prompts with n {} are {} answers; at most {} are accepted", prompts,
                    request.params.n, prompts * request.params.n, kMaxAnswers);
  if (request.params.echo && request.params.logprobs >= 0)
    return std::unexpected(Error{Code::kUnsupported,
                                 "echo together with logprobs is not supported by this version; "
                                 "send one of them",
                                 "echo"});
  TRY(CheckGenerateParams(request.params));
  return request;
}

}  // namespace tandem::frontend

// Requests of /v1/chat/completions, and the chat form of /tokenize.
#include "frontend/chat_fields.h"

#include <algorithm>
#include <array>

#include "frontend/generate_fields.h"

namespace tandem::frontend {
namespace {

using wire::Json;

constexpr size_t kMaxMessages = 65536;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
constexpr int64_t kMaxAlternatives = 20;

Status CheckObjects(const Json& value, std::string_view name) {
  if (!value.IsArray()) return WrongType(name, "a list of objects", value);
  for (size_t i = 0; i < value.AsArray().size(); ++i)
    if (!value.AsArray()[i].IsObject())
      return WrongType(fmt::format("{}[{}]", name, i), "an object", value.AsArray()[i]);
  return {};
}

Status CheckContent(const Json& content, const std::string& path) {
  if (content.IsNull() || content.IsString()) return {};
  if (!content.IsArray()) return WrongType(path, "a string or a list of parts", content);
  for (size_t i = 0; i < content.AsArray().size(); ++i) {
    const Json& part = content.AsArray()[i];
    const std::string part_path = fmt::format("{}[{}]", path, i);
    if (part.IsString()) continue;
    if (!part.IsObject()) return WrongType(part_path, "an object", part);
    const Json* type = part.Find("type");
    if (type == nullptr || !type->IsString())
      return FieldErr(part_path, "{} needs a type, for example \"text\"", part_path);
    if (type->AsString() != "text")
      return std::unexpected(
          Error{Code::kUnsupported,
                fmt::format("{} has the type \"{}\"; this version serves only text parts",
                            part_path, type->AsString().substr(0, 40)),
                part_path});
    const Json* text = part.Find("text");
    if (text == nullptr || !text->IsString())
      return FieldErr(part_path, "{} needs a text", part_path);
  }
  return {};
}

constexpr size_t kMaxRoleBytes = 64;

// What nearly every message is: a role and a text. Others are looked at with their path at hand.
bool IsPlain(const Json& message) {
  if (!message.IsObject() || message.Find("tool_calls") != nullptr) return false;
  const Json* role = message.Find("role");
  if (role == nullptr || !role->IsString() || role->AsString().size() > kMaxRoleBytes) return false;
  const Json* content = message.Find("content");
  return content == nullptr || content->IsString();
}

Status CheckMessage(const Json& message, const std::string& path) {
  if (!message.IsObject()) return WrongType(path, "an object", message);
  const Json* role = message.Find("role");
  const std::string role_path = path + ".role";
  if (role == nullptr) return FieldErr(role_path, "{} is missing", role_path);
  TRY(ReadString(*role, role_path, kMaxRoleBytes));
  if (const Json* content = message.Find("content")) TRY(CheckContent(*content, path + ".content"));
  if (const Json* calls = message.Find("tool_calls"); calls != nullptr && !calls->IsNull())
    TRY(CheckObjects(*calls, path + ".tool_calls"));
  return {};
}

Status ReadMessages(const Json& value, std::string_view name, ChatPrompt& to) {
  if (!value.IsArray()) return WrongType(name, "a list of messages", value);
  if (value.AsArray().empty()) return FieldErr(name, "{} must not be empty", name);
  if (value.AsArray().size() > kMaxMessages)
    return FieldErr(name, "{} has more than {} messages", name, kMaxMessages);
  for (size_t i = 0; i < value.AsArray().size(); ++i)
    if (!IsPlain(value.AsArray()[i]))
      TRY(CheckMessage(value.AsArray()[i], fmt::format("{}[{}]", name, i)));
  to.messages = value;
  return {};
}

Status ReadTools(const Json& value, std::string_view name, ChatPrompt& to) {
  TRY(CheckObjects(value, name));
  if (value.AsArray().empty()) return FieldErr(name, "{} must not be empty; leave it out", name);
  to.tools = value;
  return {};
}

Status ReadDocuments(const Json& value, std::string_view name, ChatPrompt& to) {
  TRY(CheckObjects(value, name));
  to.documents = value;
  return {};
}

Status ReadVariables(const Json& value, std::string_view name, ChatPrompt& to) {
  // Names that templates get from other fields, and options of the renderer.
  constexpr std::array<std::string_view, 5> kFields = {"messages", "tools", "documents",
                                                       "chat_template", "tokenize"};
  if (!value.IsObject()) return WrongType(name, "an object", value);
  for (const Json::Member& member : value.AsObject()) {
    if (std::find(kFields.begin(), kFields.end(), member.key) != kFields.end())
      return FieldErr(name,
                      "{} must not hold {}: it is no variable of templates, but decided "
                      "by fields of the request",
                      name, member.key);
    to.variables.push_back(member);
  }
  return {};
}

// Templates that know the effort read it as a variable.
Status ReadEffort(const Json& value, std::string_view name, ChatPrompt& to) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  TRY_ASSIGN(const std::string effort, ReadString(value, name, 16));
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end())
    return FieldErr(name, "{} is \"{}\"; use none, minimal, low, medium, high, xhigh or max", name,
                    effort);
  to.variables.push_back({std::string(name), Json(effort)});
  return {};
}

// Chat's own fields around the shared ones.
struct ChatExtra {
  std::optional<int64_t> max_completion_tokens;
  bool logprobs = false;
  int64_t top_logprobs = 0;
  bool top_logprobs_given = false;
  std::string tool_choice;
};

Status ReadTopLogprobs(const Json& value, std::string_view name, ChatExtra& to) {
  TRY_ASSIGN(to.top_logprobs, ReadInt(value, name, 0, kMaxAlternatives));
  to.top_logprobs_given = true;
  return {};
}

Status ReadToolChoice(const Json& value, std::string_view name, ChatExtra& to) {
  if (value.IsString() && value.AsString() == "none") {
    to.tool_choice = "none";
    return {};
  }
  return std::unexpected(Error{
      Code::kUnsupported,
      fmt::format("{} must be \"none\": this version shows tools to the model but does not parse "
                  "tool calls",
                  name),
      std::string(name)});
}

std::span<const Field<ChatExtra>> ExtraFields() {
  using F = Field<ChatExtra>;
  static const std::vector<F> kFields = {
      {"max_completion_tokens",
       F::Int{&ChatExtra::max_completion_tokens, 1, std::numeric_limits<int32_t>::max()}},
      {"logprobs", F::Bool{&ChatExtra::logprobs}},
      {"top_logprobs", F::Custom{ReadTopLogprobs}},
      {"tool_choice", F::Custom{ReadToolChoice}},
      {"parallel_tool_calls", Informational{}},
      {"include_reasoning", Unsupported{{"true"}, {}}},
      {"thinking_token_budget", Unsupported{{"-1"}, {}}},
      {"echo", Unsupported{{"false"}, "use /v1/completions"}},
      {"functions", Unsupported{{"[]"}, "use tools"}},
      {"function_call", Unsupported{{"\"none\""}, "use tools"}},
      {"modalities", Unsupported{{"[\"text\"]"}, {}}},
      {"audio", Unsupported{{}, {}}},
      {"prediction", Unsupported{{}, {}}},
      {"web_search_options", Unsupported{{}, {}}},
      {"verbosity", Unsupported{{"\"medium\""}, {}}},
      {"media_io_kwargs", Unsupported{{"{}"}, {}}},
      {"mm_processor_kwargs", Unsupported{{"{}"}, {}}},
  };
  return kFields;
}

}  // namespace

std::span<const Field<ChatPrompt>> ChatPromptFields() {
  using F = Field<ChatPrompt>;
  static const std::vector<F> kFields = {
      {"messages", F::Custom{ReadMessages}},
      {"tools", F::Custom{ReadTools}},
      {"documents", F::Custom{ReadDocuments}},
      {"add_generation_prompt", F::Bool{&ChatPrompt::add_generation_prompt}},
      {"continue_final_message", F::Bool{&ChatPrompt::continue_final_message}},
      {"chat_template", F::String{&ChatPrompt::chat_template, kMaxTemplateBytes, false}},
      {"chat_template_kwargs", F::Custom{ReadVariables}},
      {"chat_template_args", F::Custom{ReadVariables}},
      {"reasoning_effort", F::Custom{ReadEffort}},
  };
  return kFields;
}

Status SettleChatPrompt(ChatPrompt& prompt) {
  // As in the reference, a variable of a flag's name sets the flag.
  for (const auto& [name, flag] :
       {std::pair("add_generation_prompt", &ChatPrompt::add_generation_prompt),
        std::pair("continue_final_message", &ChatPrompt::continue_final_message)})
    for (const Json::Member& variable : prompt.variables)
      if (variable.key == name) {
        TRY_ASSIGN(prompt.*flag,
                   ReadBool(variable.value, fmt::format("chat_template_kwargs.{}", name)));
      }
  std::erase_if(prompt.variables, [](const Json::Member& variable) {
    return variable.key == "add_generation_prompt" || variable.key == "continue_final_message";
  });
  if (prompt.messages.IsNull()) return FieldErr("messages", "messages is missing");
  if (prompt.continue_final_message && prompt.add_generation_prompt)
    return FieldErr("continue_final_message",
                    "continue_final_message needs add_generation_prompt to be false");
  return {};
}

Result<ChatRequest> ParseChatRequest(std::string_view body) {
  TRY_ASSIGN(const Json json, ParseBody(body));
  ChatRequest request;
  request.params.add_special_tokens = false;  // the template writes them
  ChatExtra extra;
  TRY(ReadMembers(json.AsObject(), Bound{ChatPromptFields(), request.prompt},
                  Bound{GenerateFields(), request.params}, Bound{ExtraFields(), extra}));
  TRY(SettleChatPrompt(request.prompt));
  if (!request.prompt.tools.IsNull() && extra.tool_choice.empty()) {
    // Without a choice the reference would parse tool calls.
    TRY(ReadToolChoice(Json("auto"), "tool_choice", extra));
  }
  if (extra.top_logprobs_given && extra.top_logprobs > 0 && !extra.logprobs)
    return FieldErr("top_logprobs", "top_logprobs needs logprobs to be true");
  if (extra.logprobs) request.params.logprobs = extra.top_logprobs;
  if (extra.max_completion_tokens) request.params.max_tokens = extra.max_completion_tokens;
  TRY(CheckGenerateParams(request.params));
  return request;
}

}  // namespace tandem::frontend

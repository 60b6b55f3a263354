// Requests of /tokenize and /detokenize.
#include "frontend/chat_fields.h"

namespace tandem::frontend {
namespace {

using wire::Json;

constexpr size_t kMaxNameBytes = 512;

// What /tokenize takes besides the fields of a chat prompt.
struct TokenizeExtra {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
};

Status ReadPromptText(const Json& value, std::string_view name, TokenizeExtra& to) {
  TRY_ASSIGN(to.prompt, ReadString(value, name, std::numeric_limits<size_t>::max()));
  return {};
}

Status ReadAddSpecial(const Json& value, std::string_view name, TokenizeExtra& to) {
  TRY_ASSIGN(to.add_special_tokens, ReadBool(value, name));
  return {};
}

const std::vector<Field<TokenizeExtra>>& TokenizeFields() {
  using F = Field<TokenizeExtra>;
  static const std::vector<F> kFields = {
      {"model", F::String{&TokenizeExtra::model, kMaxNameBytes}},
      {"prompt", F::Custom{ReadPromptText}},
      {"add_special_tokens", F::Custom{ReadAddSpecial}},
      {"return_token_strs", F::Bool{&TokenizeExtra::return_token_strs}},
      {"media_io_kwargs", Unsupported{{"{}"}, {}}},
      {"mm_processor_kwargs", Unsupported{{"{}"}, {}}},
  };
  return kFields;
}

}  // namespace

Result<TokenizeRequest> ParseTokenizeRequest(std::string_view body) {
  TRY_ASSIGN(const Json json, ParseBody(body));
  TokenizeRequest request;
  TokenizeExtra extra;
  ChatPrompt chat;
  TRY(ReadMembers(json.AsObject(), Bound{TokenizeFields(), extra},
                  Bound{ChatPromptFields(), chat}));
  const bool has_messages = !chat.messages.IsNull();
  if (extra.prompt.has_value() == has_messages)
    return FieldErr("prompt", "send one of prompt and messages");
  request.model = std::move(extra.model);
  request.return_token_strs = extra.return_token_strs;
  // A template writes the special tokens itself.
  request.add_special_tokens = extra.add_special_tokens.value_or(!has_messages);
  if (has_messages) {
    TRY(SettleChatPrompt(chat));
    request.prompt = std::move(chat);
  } else {
    request.prompt = *std::move(extra.prompt);
  }
  return request;
}

Result<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body) {
  using F = Field<DetokenizeRequest>;
  static const std::vector<F> kFields = {
      {"model", F::String{&DetokenizeRequest::model, kMaxNameBytes}},
      {"tokens", F::TokenIds{&DetokenizeRequest::tokens}},
  };
  TRY_ASSIGN(const Json json, ParseBody(body));
  if (json.Find("tokens") == nullptr || json.Find("tokens")->IsNull())
    return FieldErr("tokens", "tokens is missing");
  DetokenizeRequest request;
  TRY(ReadMembers(json.AsObject(), Bound{kFields, request}));
  return request;
}

}  // namespace tandem::frontend

#include "frontend/tokenize_handler.h"

#include <utility>

#include "frontend/prompt.h"
#include "frontend/request.h"
#include "frontend/request_context.h"
#include "wire/json_writer.h"

namespace tandem::frontend {
namespace {

struct Model {
  std::string name;
  int64_t max_model_len = 0;
  Assets assets;
};

rt::Task<Result<Model>> LoadModel(Services& services, std::string name, rt::CancelToken cancel) {
  CO_TRY_ASSIGN(const router::ModelGroup* group, services.router.table().Find(name));
  Model model{.name = group->name, .max_model_len = group->max_model_len, .assets = {}};
  CO_TRY_ASSIGN(model.assets, co_await services.assets.Get(group->card, cancel));
  if (!model.assets->tokenizer)
    co_return Err(Code::kUnsupported, "the model '{}' has no tokenizer", model.name);
  co_return model;
}

Result<std::vector<TokenId>> IdsOf(const TokenizeRequest& request, const ModelAssets& assets,
                                   const RenderSettings& settings) {
  if (const auto* text = std::get_if<std::string>(&request.prompt))
    return EncodeText(assets, *text, request.add_special_tokens);
  TRY_ASSIGN(const std::string text,
             RenderChat(assets, std::get<ChatPrompt>(request.prompt), settings));
  return EncodeText(assets, text, request.add_special_tokens);
}

std::string TokenizeBody(const TokenizeRequest& request, const Model& model,
                         const std::vector<TokenId>& ids) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("count").Int(ids.size());
  json.Key("max_model_len").Int(model.max_model_len).Key("tokens").BeginArray();
  for (const TokenId id : ids) json.Int(id);
  json.EndArray().Key("token_strs");
  if (request.return_token_strs) {
    json.BeginArray();
    for (const TokenId id : ids) json.String(model.assets->tokenizer->TokenText(id));
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return out;
}

rt::Task<Result<std::string>> Tokenize(Services& services, RequestContext& context,
                                       const net::HttpRequest& request) {
  CO_TRY(context.ReadHeaders());
  CO_TRY(context.CheckContentType());
  CO_TRY_ASSIGN(const TokenizeRequest parsed, ParseTokenizeRequest(request.body));
  CO_TRY_ASSIGN(const Model model, co_await LoadModel(services, parsed.model, context.token()));
  Result<std::vector<TokenId>> ids = Err(Code::kInternal, "not tokenised");
  const RenderSettings settings = RenderSettingsOf(services);
  co_await services.runtime.RunBlocking([&] { ids = IdsOf(parsed, *model.assets, settings); });
  CO_TRY(ids);
  co_return TokenizeBody(parsed, model, *ids);
}

rt::Task<Result<std::string>> Detokenize(Services& services, RequestContext& context,
                                         const net::HttpRequest& request) {
  CO_TRY(context.ReadHeaders());
  CO_TRY(context.CheckContentType());
  CO_TRY_ASSIGN(const DetokenizeRequest parsed, ParseDetokenizeRequest(request.body));
  CO_TRY_ASSIGN(const Model model, co_await LoadModel(services, parsed.model, context.token()));
  CO_TRY(CheckIds(*model.assets, parsed.tokens, "tokens"));
  std::string out;
  wire::JsonWriter(out)
      .BeginObject()
      .Key("prompt")
      .String(model.assets->tokenizer->Decode(parsed.tokens, false))
      .EndObject();
  co_return out;
}

rt::Task<void> Reply(RequestContext& context, net::HttpResponder& responder,
                     Result<std::string> body) {
  if (body)
    (void)co_await context.RespondJson(responder, *std::move(body));
  else if (!context.ClientGone())
    (void)co_await context.RespondError(responder, std::move(body).error());
}

}  // namespace

rt::Task<void> HandleTokenize(Services& services, net::HttpRequest request,
                              net::HttpResponder& responder) {
  RequestContext context(services, request);
  co_await Reply(context, responder, co_await Tokenize(services, context, request));
}

rt::Task<void> HandleDetokenize(Services& services, net::HttpRequest request,
                                net::HttpResponder& responder) {
  RequestContext context(services, request);
  co_await Reply(context, responder, co_await Detokenize(services, context, request));
}

}  // namespace tandem::frontend

#include "frontend/assets.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "router/router.h"
#include "text/tokenizer_spec.h"
#include "wire/json.h"

namespace tandem::frontend {
namespace {

// Its name among a model's templates, as Hugging Face has it.
constexpr std::string_view kToolTemplate = "tool_use";
constexpr size_t kMaxConfigBytes = size_t{1} << 20;

std::optional<double> NumberIn(const wire::Json& json, std::string_view name, double min,
                               double max) {
  const wire::Json* value = json.Find(name);
  if (value == nullptr || !value->IsNumber()) return std::nullopt;
  const double number = value->AsDouble();
  if (!(number >= min && number <= max)) return std::nullopt;
  return number;
}

}  // namespace

Result<GenerationDefaults> ParseGenerationConfig(std::string_view json) {
  const auto parsed = wire::ParseJson(json);
  if (!parsed || !parsed->IsObject())
    return Err(Code::kCorrupt, "the generation config is not a JSON object");
  GenerationDefaults defaults;
  defaults.temperature = NumberIn(*parsed, "temperature", 0, 2);
  defaults.top_p = NumberIn(*parsed, "top_p", 1e-9, 1);
  defaults.min_p = NumberIn(*parsed, "min_p", 0, 1);
  defaults.repetition_penalty = NumberIn(*parsed, "repetition_penalty", 1e-9, 1e9);
  if (const auto top_k = NumberIn(*parsed, "top_k", -1, 1e9))
    defaults.top_k = static_cast<int64_t>(*top_k);
  if (const auto most = NumberIn(*parsed, "max_new_tokens", 1, 1e9))
    defaults.max_new_tokens = static_cast<int64_t>(*most);
  return defaults;
}

Result<ModelAssets> BuildAssets(const AssetBytes& bytes) {
  ModelAssets assets;
  assets.bytes =
      bytes.tokenizer.size() + bytes.chat_template.size() + bytes.generation_config.size();
  if (!bytes.tokenizer.empty()) {
    TRY_ASSIGN(text::TokenizerSpec spec, text::ParseTokenizerSpec(bytes.tokenizer));
    const auto named = std::find_if(spec.named_templates.begin(), spec.named_templates.end(),
                                    [](const auto& entry) { return entry.name == kToolTemplate; });
    if (named != spec.named_templates.end()) {
      TRY_ASSIGN(assets.tool_template, text::ChatTemplate::Compile(named->text));
      assets.tool_content_form =
          ChooseContentForm(*assets.tool_template, bytes.content_format, TemplateOrigin::kModel);
    }
    TRY_ASSIGN(assets.tokenizer, text::Tokenizer::Create(std::move(spec)));
  }
  assets.content_format = bytes.content_format;
  if (!bytes.chat_template.empty()) {
    TRY_ASSIGN(assets.chat_template, text::ChatTemplate::Compile(bytes.chat_template));
    assets.content_form =
        ChooseContentForm(*assets.chat_template, bytes.content_format, TemplateOrigin::kModel);
  }
  if (!bytes.generation_config.empty()) {
    TRY_ASSIGN(assets.defaults, ParseGenerationConfig(bytes.generation_config));
  }
  return assets;
}

AssetCache::AssetCache(router::Router& router, size_t max_bytes)
    : router_(router), max_bytes_(max_bytes), scope_(router.runtime()) {}

AssetCache::Key AssetCache::KeyOf(const wire::ModelCard& card) {
  return {card.tokenizer_digest, card.template_digest, card.generation_config_digest,
          card.content_format};
}

Assets AssetCache::Find(const wire::ModelCard& card) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.key.tokenizer == card.tokenizer_digest &&
           entry.key.chat_template == card.template_digest &&
           entry.key.generation_config == card.generation_config_digest &&
           entry.key.content_format == card.content_format;
  });
  if (found == entries_.end()) return nullptr;
  if (found != entries_.begin()) entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().assets;
}

rt::Task<Result<Assets>> AssetCache::Get(wire::ModelCard card, rt::CancelToken cancel) {
  if (Assets known = Find(card)) co_return known;
  const std::shared_ptr<Load> load = StartLoad(card, KeyOf(card));
  CO_TRY(co_await load->done.Wait(cancel));
  co_return load->result;
}

void AssetCache::Prefetch(const wire::ModelCard& card) {
  if (Find(card) == nullptr) StartLoad(card, KeyOf(card));
}

rt::Task<void> AssetCache::Stop() {
  scope_.Cancel();
  co_await scope_.Join();
}

std::shared_ptr<AssetCache::Load> AssetCache::StartLoad(const wire::ModelCard& card,
                                                        const Key& key) {
  std::shared_ptr<Load>& load = loads_[key];
  if (!load) {
    load = std::make_shared<Load>(router_.runtime());
    scope_.Spawn(RunLoad(card, key, load));
  }
  return load;
}

rt::Task<void> AssetCache::RunLoad(wire::ModelCard card, Key key, std::shared_ptr<Load> load) {
  load->result = co_await Fetch(card);
  if (load->result) {
    Keep(key, *load->result);
  } else {
    // Whatever it was, the client's request is not at fault.
    load->result.error().code = Code::kUnavailable;
    load->result.error().message = fmt::format("the tokenizer of '{}' could not be loaded: {}",
                                               card.name, load->result.error().message);
    LOG_WARN("{}", load->result.error().message);
  }
  loads_.erase(key);
  load->done.Set();
}

rt::Task<Result<std::string>> AssetCache::FetchNamed(std::string model, std::string digest,
                                                     size_t max_bytes) {
  if (digest.empty()) co_return std::string();
  co_return co_await router_.FetchArtifact(std::move(model), std::move(digest), max_bytes,
                                           scope_.Token());
}

rt::Task<Result<Assets>> AssetCache::Fetch(wire::ModelCard card) {
  AssetBytes bytes;
  bytes.content_format = card.content_format;
  CO_TRY_ASSIGN(bytes.tokenizer, co_await FetchNamed(card.name, card.tokenizer_digest, max_bytes_));
  CO_TRY_ASSIGN(bytes.chat_template,
                co_await FetchNamed(card.name, card.template_digest, text::kMaxTemplateBytes));
  CO_TRY_ASSIGN(bytes.generation_config,
                co_await FetchNamed(card.name, card.generation_config_digest, kMaxConfigBytes));
  Result<ModelAssets> built = Err(Code::kInternal, "not built");
  co_await router_.runtime().RunBlocking([&] { built = BuildAssets(bytes); });
  if (!built) co_return std::unexpected(std::move(built).error());
  co_return std::make_shared<const ModelAssets>(*std::move(built));
}

void AssetCache::Keep(const Key& key, const Assets& assets) {
  entries_.push_front({key, assets});
  bytes_ += assets->bytes;
  // The newest stays, however large it is: it was bounded when it was fetched.
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().assets->bytes;
    entries_.pop_back();
  }
}

}  // namespace tandem::frontend

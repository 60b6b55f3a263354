// What a frontend needs of a model besides its workers: tokenizer, chat template, sampling
// defaults. Fetched from a worker by digest, once, and kept within a bound. Loop thread only.
#ifndef TANDEM_FRONTEND_ASSETS_H_
#define TANDEM_FRONTEND_ASSETS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "frontend/content_form.h"
#include "rt/cancel.h"
#include "rt/event.h"
#include "rt/scope.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "wire/messages.h"

namespace tandem::router {
class Router;
}

namespace tandem::frontend {

// From generation_config.json: used where a request leaves a parameter out.
struct GenerationDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> max_new_tokens;  // bounds every answer
};

// Values outside their range are left out; text that is not JSON is kCorrupt.
Result<GenerationDefaults> ParseGenerationConfig(std::string_view json);

// Immutable; used from helper threads too.
struct ModelAssets {
  std::unique_ptr<text::Tokenizer> tokenizer;  // null: the model has none, only token ids work
  std::optional<text::ChatTemplate> chat_template;
  ContentForm content_form;  // of chat_template
  // For requests with tools, where the model has a template of that purpose.
  std::optional<text::ChatTemplate> tool_template;
  ContentForm tool_content_form;
  std::string content_format;  // auto, string, openai: for templates of requests
  GenerationDefaults defaults;
  size_t bytes = 0;  // of the artefacts
};
// Shared: a request keeps using its assets after the cache has dropped them.
using Assets = std::shared_ptr<const ModelAssets>;

// Artefacts as bytes; empty ones are absent.
struct AssetBytes {
  std::string tokenizer;
  std::string chat_template;
  std::string generation_config;
  std::string content_format;
};
Result<ModelAssets> BuildAssets(const AssetBytes& bytes);

class AssetCache {
 public:
  // The router outlives the cache.
  AssetCache(router::Router& router, size_t max_bytes);

  // What is there already; null otherwise.
  Assets Find(const wire::ModelCard& card);
  // Waits for a load under way instead of starting another. The load goes on if the waiting
  // request is cancelled.
  rt::Task<Result<Assets>> Get(wire::ModelCard card, rt::CancelToken cancel);
  // Starts a load that nobody waits for.
  void Prefetch(const wire::ModelCard& card);
  rt::Task<void> Stop();

 private:
  // A load under way. Shared between the loading task and those that wait for it.
  struct Load {
    explicit Load(rt::Runtime& runtime) : done(runtime) {}
    rt::Event done;
    Result<Assets> result = Err(Code::kInternal, "not loaded");
  };
  // Digests, and the form of contents.
  struct Key {
    std::string tokenizer;
    std::string chat_template;
    std::string generation_config;
    std::string content_format;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Key key;
    Assets assets;
  };

  static Key KeyOf(const wire::ModelCard& card);
  std::shared_ptr<Load> StartLoad(const wire::ModelCard& card, const Key& key);
  rt::Task<void> RunLoad(wire::ModelCard card, Key key, std::shared_ptr<Load> load);
  rt::Task<Result<Assets>> Fetch(wire::ModelCard card);
  rt::Task<Result<std::string>> FetchNamed(std::string model, std::string digest, size_t max_bytes);
  void Keep(const Key& key, const Assets& assets);

  router::Router& router_;
  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::map<Key, std::shared_ptr<Load>> loads_;
  rt::TaskScope scope_;
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_ASSETS_H_

#include "engine/artifacts.h"

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "base/log.h"
#include "engine/generation_config.h"
#include "engine/gguf_tokenizer.h"
#include "model/gguf.h"
#include "model/model_files.h"
#include "model/tokenizer_metadata.h"
#include "text/byte_alphabet.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"
#include "text/tokenizer_folder.h"
#include "text/tokenizer_spec.h"

namespace tandem::engine {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

// A model's tokenizer with what is said about it elsewhere in its files.
struct Source {
  text::TokenizerSpec spec;
  std::string label;             // for errors
  std::string folder;            // in Hugging Face layout; "" for a single file
  std::vector<int64_t> end_ids;  // besides those of the spec
};

void AddEnd(int64_t id, ModelArtifacts& artifacts) {
  if (id < 0 || id >= artifacts.vocab) {
    LOG_WARN("the model names token {} as the end of an answer, but has {} tokens; ignored", id,
             artifacts.vocab);
    return;
  }
  const auto token = static_cast<wire::TokenId>(id);
  if (std::find(artifacts.eos_ids.begin(), artifacts.eos_ids.end(), token) ==
      artifacts.eos_ids.end())
    artifacts.eos_ids.push_back(token);
}

std::string Keep(std::string bytes, ModelArtifacts& artifacts) {
  if (bytes.empty()) return {};
  std::string digest = Hex(Sha256(bytes));
  artifacts.by_digest.emplace(digest, std::move(bytes));
  return digest;
}

Result<ModelArtifacts> Pack(const Source& source, const WorkerOptions& options) {
  text::TokenizerSpec spec = source.spec;
  // One template for every request, then.
  if (!options.chat_template.empty()) spec.named_templates.clear();
  ModelArtifacts artifacts;
  TRY_ASSIGN(std::string bytes, text::Serialize(spec));
  artifacts.tokenizer_digest = Keep(std::move(bytes), artifacts);
  artifacts.template_digest =
      Keep(options.chat_template.empty() ? spec.chat_template : options.chat_template, artifacts);
  TRY_ASSIGN(GenerationConfig generation,
             ReadGenerationConfig({.choice = options.generation_config,
                                   .overrides = options.override_generation_config,
                                   .model_folder = source.folder}));
  artifacts.generation_digest = Keep(std::move(generation.defaults), artifacts);
  artifacts.vocab = static_cast<int32_t>(spec.tokens.size());
  for (const auto& id : {spec.eos_id, spec.eot_id})
    if (id) AddEnd(*id, artifacts);
  for (const int64_t id : source.end_ids) AddEnd(id, artifacts);
  for (const int64_t id : generation.eos_ids) AddEnd(id, artifacts);
  for (int32_t id = 0; id < artifacts.vocab; ++id) {
    const bool normal = spec.token_types.empty() ||
                        spec.token_types[static_cast<size_t>(id)] == text::TokenType::kNormal;
    if (normal && std::find(artifacts.eos_ids.begin(), artifacts.eos_ids.end(), id) ==
                      artifacts.eos_ids.end())
      artifacts.text_ids.push_back(id);
  }
  return artifacts;
}

// A token beyond the embedding's rows cannot be computed. Fewer tokens than rows are
// usual: rows are padded to a round number, and no text leads to them.
Status CheckVocabulary(const model::GgufView& file, int32_t tokens) {
  constexpr std::string_view kTable = "token_embd.weight";
  const model::Tensor* table = file.FindTensor(kTable);
  if (table == nullptr || tokens <= table->Rows()) return {};
  return Err(
      Code::kCorrupt,
      "{}: the tokenizer has {} tokens, but {} has rows for {}; the file mixes two models or "
      "was converted wrongly: convert or download it again",
      file.label(), tokens, kTable, table->Rows());
}

// Frontends build a tokenizer and a template from the same bytes. A worker whose artifacts no
// frontend can use would be announced and could serve nothing.
Status CheckUsable(const ModelArtifacts& artifacts, std::string_view file) {
  const auto refuse = [&](std::string_view what, const Error& error) {
    return Err(error.code,
               "{}: its {}: {}; the file is damaged, was converted wrongly or needs "
               "another version: convert or download it again",
               file, what, error.message);
  };
  TRY_ASSIGN(text::TokenizerSpec spec,
             text::ParseTokenizerSpec(artifacts.by_digest.at(artifacts.tokenizer_digest)));
  for (const text::NamedTemplate& named : spec.named_templates)
    if (named.name == "tool_use")
      if (const auto compiled = text::ChatTemplate::Compile(named.text); !compiled)
        return refuse("chat template for tools cannot be used", compiled.error());
  if (const auto built = text::Tokenizer::Create(std::move(spec)); !built)
    return refuse("tokenizer cannot be built", built.error());
  if (artifacts.template_digest.empty()) return {};
  const auto compiled =
      text::ChatTemplate::Compile(artifacts.by_digest.at(artifacts.template_digest));
  return compiled ? Status() : refuse("chat template cannot be used", compiled.error());
}

Result<Source> ReadGguf(const std::string& path) {
  TRY_ASSIGN(const auto file, model::GgufFile::Open(path));
  TRY_ASSIGN(auto metadata, model::ReadTokenizerMetadata(file->view()));
  Source source;
  source.label = path;
  if (metadata.eom) source.end_ids.push_back(*metadata.eom);
  auto spec = MakeTokenizer(std::move(metadata));
  if (!spec) {
    return Err(spec.error().code,
               "{}: its tokenizer cannot be built: {}; the file is damaged, was converted wrongly "
               "or needs another version: convert or download it again",
               path, spec.error().message);
  }
  source.spec = *std::move(spec);
  TRY(CheckVocabulary(file->view(), static_cast<int32_t>(source.spec.tokens.size())));
  return source;
}

Result<Source> BuiltIn(int32_t vocab) {
  text::GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "smollm";
  const auto add = [&](std::string token, text::TokenType type) {
    vocabulary.tokens.push_back(std::move(token));
    vocabulary.token_types.push_back(static_cast<int32_t>(type));
  };
  for (int byte = 0; byte < 256; ++byte) {
    const bool letter = byte >= 'a' && byte <= 'z';
    add(text::SymbolOfByte(static_cast<uint8_t>(byte)),
        letter ? text::TokenType::kNormal : text::TokenType::kUnused);
  }
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    add(special, text::TokenType::kControl);
  for (auto id = static_cast<int32_t>(vocabulary.tokens.size()); id < vocab; ++id)
    add(text::SymbolOfByte(' ') + "w" + std::to_string(id), text::TokenType::kNormal);
  vocabulary.bos = 257;
  vocabulary.eos = 258;
  vocabulary.chat_template = kChatMl;
  Source source;
  source.label = "the mock engine's vocabulary";
  TRY_ASSIGN(source.spec, text::ReadGgufVocabulary(std::move(vocabulary)));
  return source;
}

// config.json's number of embedding rows; 0 where it does not say.
Result<int64_t> RowsOfConfig(const std::string& folder) {
  TRY_ASSIGN(const std::optional<wire::Json> config, ReadJsonObject(folder + "/config.json"));
  if (!config) return int64_t{0};
  const wire::Json* rows = config->Find("vocab_size");
  // Models that also see or hear keep the language model's part apart.
  if (const wire::Json* text = config->Find("text_config"); rows == nullptr && text != nullptr)
    rows = text->Find("vocab_size");
  return rows != nullptr && rows->IsInt() ? rows->AsInt() : int64_t{0};
}

// A tokenizer may know more tokens than a folder's weights have rows for: added ones that the model
// was never trained with. A request that leads to one is refused then.
Status CompareVocabulary(const std::string& folder, size_t tokens) {
  TRY_ASSIGN(const int64_t rows, RowsOfConfig(folder));
  if (rows > 0 && static_cast<int64_t>(tokens) > rows)
    LOG_WARN(
        "{}: the tokenizer has {} tokens, but the model has rows for {}; a text that holds one of "
        "the others is refused",
        folder, tokens, rows);
  return {};
}

Result<text::TokenizerSpec> ReadTokenizerAt(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return text::ReadTokenizerFolder(path);
  if (!std::filesystem::is_regular_file(path, error))
    return FieldErr("--tokenizer", "--tokenizer '{}': there is no such folder or .gguf file", path);
  TRY_ASSIGN(Source source, ReadGguf(path));
  return std::move(source.spec);
}

// The model's tokenizer, or that of --tokenizer with the model's other files.
Result<Source> ReadModel(const WorkerOptions& options) {
  TRY_ASSIGN(const model::ModelFiles files, model::FindModelFiles(options.model_path));
  const bool gguf = files.kind == model::ModelFiles::Kind::kGguf;
  Source source;
  if (options.tokenizer_path.empty() && gguf) return ReadGguf(files.weights.front());
  source.label = options.tokenizer_path.empty() ? files.folder : options.tokenizer_path;
  TRY_ASSIGN(source.spec, options.tokenizer_path.empty() ? text::ReadTokenizerFolder(files.folder)
                                                         : ReadTokenizerAt(options.tokenizer_path));
  if (gguf) {
    TRY_ASSIGN(const auto file, model::GgufFile::Open(files.weights.front()));
    TRY(CheckVocabulary(file->view(), static_cast<int32_t>(source.spec.tokens.size())));
  } else {
    source.folder = files.folder;
    TRY(CompareVocabulary(files.folder, source.spec.tokens.size()));
  }
  return source;
}

// "models/name-00001-of-00002.gguf" -> "name", "models/name/" -> "name".
std::string NameOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  const std::filesystem::path last = whole.has_filename() ? whole : whole.parent_path();
  const std::string name = last.filename().string();
  if (!name.ends_with(".gguf")) return name;
  const auto split = model::ParseSplitName(name);
  return split ? split->stem : last.stem().string();
}

}  // namespace

Result<ModelArtifacts> ReadArtifacts(const WorkerOptions& options) {
  if (options.model_path.empty()) {
    TRY_ASSIGN(const Source source, BuiltIn(options.mock.vocab));
    TRY_ASSIGN(ModelArtifacts artifacts, Pack(source, options));
    artifacts.name = "mock";
    return artifacts;
  }
  TRY_ASSIGN(const Source source, ReadModel(options));
  TRY_ASSIGN(ModelArtifacts artifacts, Pack(source, options));
  TRY(CheckUsable(artifacts, source.label));
  artifacts.name = NameOf(options.model_path);
  return artifacts;
}

}  // namespace tandem::engine

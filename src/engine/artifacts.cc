#include "engine/artifacts.h"

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "model/gguf.h"
#include "model/tokenizer_metadata.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem::engine {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

// How byte-level vocabularies write a byte: printable Latin-1 stands for itself, the others are
// numbered from U+0100 on.
std::string ByteSymbol(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  char32_t symbol = static_cast<char32_t>(byte);
  if (!printable(byte)) {
    symbol = 0x100;
    for (int b = 0; b < byte; ++b)
      if (!printable(b)) ++symbol;
  }
  std::string out;
  text::AppendUtf8(symbol, out);
  return out;
}

Result<ModelArtifacts> Pack(const text::TokenizerSpec& spec) {
  ModelArtifacts artifacts;
  TRY_ASSIGN(std::string bytes, text::Serialize(spec));
  artifacts.tokenizer_digest = Hex(Sha256(bytes));
  artifacts.by_digest.emplace(artifacts.tokenizer_digest, std::move(bytes));
  if (!spec.chat_template.empty()) {
    artifacts.template_digest = Hex(Sha256(spec.chat_template));
    artifacts.by_digest.emplace(artifacts.template_digest, spec.chat_template);
  }
  artifacts.vocab = static_cast<int32_t>(spec.tokens.size());
  for (const auto& id : {spec.eos_id, spec.eot_id})
    if (id && std::find(artifacts.eos_ids.begin(), artifacts.eos_ids.end(), *id) ==
                  artifacts.eos_ids.end())
      artifacts.eos_ids.push_back(*id);
  for (int32_t id = 0; id < artifacts.vocab; ++id) {
    const bool normal = spec.token_types.empty() ||
                        spec.token_types[static_cast<size_t>(id)] == text::TokenType::kNormal;
    if (normal && std::find(artifacts.eos_ids.begin(), artifacts.eos_ids.end(), id) ==
                      artifacts.eos_ids.end())
      artifacts.text_ids.push_back(id);
  }
  return artifacts;
}

text::TokenizerSpec ToSpec(model::TokenizerMetadata metadata) {
  text::TokenizerSpec spec;
  spec.model = std::move(metadata.model);
  spec.pre_tokenizer = std::move(metadata.pre);
  spec.tokens = std::move(metadata.tokens);
  spec.token_types.reserve(metadata.token_types.size());
  for (const int32_t type : metadata.token_types)
    spec.token_types.push_back(static_cast<text::TokenType>(type));
  spec.merges = std::move(metadata.merges);
  spec.scores = std::move(metadata.scores);
  spec.bos_id = metadata.bos;
  spec.eos_id = metadata.eos;
  spec.eot_id = metadata.eot;
  spec.unk_id = metadata.unknown;
  spec.pad_id = metadata.padding;
  spec.add_bos = metadata.add_bos.value_or(false);
  spec.add_eos = metadata.add_eos.value_or(false);
  spec.add_space_prefix = metadata.add_space_prefix.value_or(false);
  spec.chat_template = std::move(metadata.chat_template);
  return spec;
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
  if (const auto built = text::Tokenizer::Create(std::move(spec)); !built)
    return refuse("tokenizer cannot be built", built.error());
  if (artifacts.template_digest.empty()) return {};
  const auto compiled =
      text::ChatTemplate::Compile(artifacts.by_digest.at(artifacts.template_digest));
  return compiled ? Status() : refuse("chat template cannot be used", compiled.error());
}

}  // namespace

Result<ModelArtifacts> ReadArtifacts(const std::string& gguf_path) {
  TRY_ASSIGN(const auto file, model::GgufFile::Open(gguf_path));
  TRY_ASSIGN(auto metadata, model::ReadTokenizerMetadata(file->view()));
  const std::optional<int32_t> end_of_message = metadata.eom;
  TRY_ASSIGN(ModelArtifacts artifacts, Pack(ToSpec(std::move(metadata))));
  TRY(CheckVocabulary(file->view(), artifacts.vocab));
  TRY(CheckUsable(artifacts, file->view().label()));
  if (end_of_message) {
    std::erase(artifacts.text_ids, *end_of_message);
    if (std::find(artifacts.eos_ids.begin(), artifacts.eos_ids.end(), *end_of_message) ==
        artifacts.eos_ids.end())
      artifacts.eos_ids.push_back(*end_of_message);
  }
  artifacts.name = std::filesystem::path(gguf_path).stem().string();
  TRY_ASSIGN(const std::string_view architecture,
             file->view().String("general.architecture", std::string_view()));
  TRY_ASSIGN(const uint64_t context,
             file->view().Uint(std::string(architecture) + ".context_length", uint64_t{0}));
  artifacts.context_length = static_cast<int64_t>(std::min<uint64_t>(context, uint64_t{1} << 40));
  return artifacts;
}

Result<ModelArtifacts> BuiltInArtifacts(int32_t vocab) {
  text::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(ByteSymbol(byte));
  spec.token_types.assign(256, text::TokenType::kUnused);
  for (int letter = 'a'; letter <= 'z'; ++letter)
    spec.token_types[static_cast<size_t>(letter)] = text::TokenType::kNormal;
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    spec.tokens.emplace_back(special);
    spec.token_types.push_back(text::TokenType::kControl);
  }
  for (auto id = static_cast<int32_t>(spec.tokens.size()); id < vocab; ++id) {
    spec.tokens.push_back(ByteSymbol(' ') + "w" + std::to_string(id));
    spec.token_types.push_back(text::TokenType::kNormal);
  }
  spec.bos_id = 257;
  spec.eos_id = 258;
  spec.chat_template = kChatMl;
  TRY_ASSIGN(ModelArtifacts artifacts, Pack(spec));
  artifacts.name = "mock";
  return artifacts;
}

}  // namespace tandem::engine

#include "engine/gguf_tokenizer.h"

#include <utility>

#include "text/gguf_vocabulary.h"

namespace tandem::engine {

Result<text::TokenizerSpec> MakeTokenizer(model::TokenizerMetadata metadata) {
  text::GgufVocabulary vocabulary;
  vocabulary.model = std::move(metadata.model);
  vocabulary.pre = std::move(metadata.pre);
  vocabulary.name = std::move(metadata.name);
  vocabulary.architecture = std::move(metadata.architecture);
  vocabulary.tokens = std::move(metadata.tokens);
  vocabulary.token_types = std::move(metadata.token_types);
  vocabulary.scores = std::move(metadata.scores);
  vocabulary.merges = std::move(metadata.merges);
  vocabulary.charsmap = std::move(metadata.charsmap);
  vocabulary.bos = metadata.bos;
  vocabulary.eos = metadata.eos;
  vocabulary.eot = metadata.eot;
  vocabulary.unknown = metadata.unknown;
  vocabulary.padding = metadata.padding;
  vocabulary.separator = metadata.separator;
  vocabulary.add_bos = metadata.add_bos;
  vocabulary.add_eos = metadata.add_eos;
  vocabulary.add_space_prefix = metadata.add_space_prefix;
  vocabulary.remove_extra_whitespaces = metadata.remove_extra_whitespaces;
  vocabulary.lowercase = metadata.lowercase;
  vocabulary.strip_accents = metadata.strip_accents;
  vocabulary.chat_template = std::move(metadata.chat_template);
  vocabulary.named_templates = std::move(metadata.named_chat_templates);
  return text::ReadGgufVocabulary(std::move(vocabulary));
}

}  // namespace tandem::engine

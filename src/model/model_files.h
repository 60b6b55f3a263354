// Which files of a model hold what: looks at names only, opens no weights. Follows the layout of
// Hugging Face repositories and the names of split GGUF files (NAME-00001-of-0000N.gguf).
#ifndef TANDEM_MODEL_MODEL_FILES_H_
#define TANDEM_MODEL_MODEL_FILES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::model {

struct ModelFiles {
  enum class Kind {
    kGguf,    // weights, description and tokenizer in one file or its parts
    kFolder,  // config.json, .safetensors weights, tokenizer files
  };
  Kind kind = Kind::kGguf;
  std::string folder;  // where the files lie; "." for a bare file name
  // kGguf: the file or all of its parts in order. kFolder: the shards that
  // model.safetensors.index.json names, sorted and each once, or model.safetensors.
  std::vector<std::string> weights;
};

// `path`: a folder in Hugging Face layout, a folder that holds one GGUF model, a .gguf file, or any
// part of a split one. All files that it returns are regular and can be opened for reading. Errors
// name what is missing: a shard of the index, a part, config.json, weights in another format.
Result<ModelFiles> FindModelFiles(const std::string& path);

// The name of a part of a split file; nothing if `file_name` is not of that form. Numbers from 1.
struct SplitName {
  std::string stem;  // before "-00001-of-00003.gguf"
  int part = 0;
  int parts = 0;
};
std::optional<SplitName> ParseSplitName(std::string_view file_name);
std::string SplitFileName(std::string_view stem, int part, int parts);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MODEL_FILES_H_

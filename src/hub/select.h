// Which files of a repository a model needs. Pure: works on names, of the hub's listing or of a
// folder in the cache.
#ifndef TANDEM_HUB_SELECT_H_
#define TANDEM_HUB_SELECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/model_id.h"

namespace tandem::hub {

struct Selection {
  // What to load: "" for the folder as a whole, else the path of the first .gguf file.
  std::string entry;
  std::vector<std::string> files;  // paths within the repo, sorted
  // The shards are those that this file of `files` names; "" where it needs none.
  std::string index;
};

// `files` are all paths of the repo. Without id.file a repo with safetensors is taken as a folder:
// weights, config, generation settings, tokenizer, templates. Otherwise one GGUF model: the named
// file, the one of the named quantisation, or, where nothing is named, the only one or Q4_K_M; all
// parts of a split one. Errors say what the repo holds instead.
Result<Selection> SelectFiles(const std::vector<std::string>& files, const ModelId& id);

// The shards that an index file names, each once and sorted. kCorrupt for what is no index.
Result<std::vector<std::string>> ShardsOfIndex(std::string_view json);

}  // namespace tandem::hub

#endif  // TANDEM_HUB_SELECT_H_

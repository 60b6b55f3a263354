// Names of models on the hub.
#ifndef TANDEM_HUB_MODEL_ID_H_
#define TANDEM_HUB_MODEL_ID_H_

#include <optional>
#include <string>
#include <string_view>

namespace tandem::hub {

// "org/name", "org/name@revision", "org/name:Q4_K_M", "org/name:folder/file.gguf", or a revision
// and a file, in this order.
struct ModelId {
  std::string repo;      // "org/name"
  std::string revision;  // "" where none is written
  std::string file;      // what follows the colon: a quantisation or the path of a .gguf file

  bool NamesFile() const;  // rather than a quantisation
};

// Nothing if the text is no such name: each part of the repo is 1 to 96 letters, digits, '-', '_'
// or '.', does not begin or end with '-' or '.', and holds no "--" or "..".
std::optional<ModelId> ParseModelId(std::string_view text);

// A branch, tag or commit; no path that leads elsewhere when it names a file in the cache.
bool IsRevision(std::string_view text);
// A relative path within a repo without empty, "." or ".." parts, backslashes or control
// characters.
bool IsRepoPath(std::string_view text);
bool IsCommit(std::string_view text);  // 40 lower-case hexadecimal digits

}  // namespace tandem::hub

#endif  // TANDEM_HUB_MODEL_ID_H_

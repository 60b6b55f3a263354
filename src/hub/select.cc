#include "hub/select.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "wire/json.h"

namespace tandem::hub {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kUsualQuantisation = "Q4_K_M";
constexpr size_t kMaxShards = 4096;
// At the top of a repo; what is not there is done without.
constexpr std::array<std::string_view, 14> kFolderFiles = {"config.json",
                                                           "generation_config.json",
                                                           "tokenizer.json",
                                                           "tokenizer.model",
                                                           "tokenizer_config.json",
                                                           "tekken.json",
                                                           "special_tokens_map.json",
                                                           "added_tokens.json",
                                                           "vocab.json",
                                                           "merges.txt",
                                                           "vocab.txt",
                                                           "chat_template.jinja",
                                                           "chat_template.json",
                                                           "spiece.model"};

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "folder/name-00002-of-00003.gguf" -> "folder/name", and the same for a file that is not split.
std::string Stem(std::string_view path) {
  constexpr std::string_view kShape = "-00001-of-00001.gguf";
  path.remove_suffix(5);
  if (path.size() + 5 > kShape.size()) {
    const std::string_view tail = path.substr(path.size() + 5 - kShape.size());
    const auto digits = [&](size_t at) {
      return std::all_of(tail.begin() + static_cast<ptrdiff_t>(at),
                         tail.begin() + static_cast<ptrdiff_t>(at) + 5,
                         [](char c) { return c >= '0' && c <= '9'; });
    };
    if (tail[0] == '-' && tail.substr(6, 4) == "-of-" && digits(1) && digits(10))
      path.remove_suffix(kShape.size() - 5);
  }
  return std::string(path);
}

// Models by stem, each with its parts in order. Image encoders (mmproj) are no models.
std::map<std::string, std::vector<std::string>> GgufModels(const std::vector<std::string>& files) {
  std::map<std::string, std::vector<std::string>> models;
  for (const std::string& path : files)
    if (path.ends_with(".gguf") && path.size() > 5 && !FileName(path).starts_with("mmproj"))
      models[Stem(path)].push_back(path);
  for (auto& [stem, parts] : models) std::sort(parts.begin(), parts.end());
  return models;
}

// Whether the quantisation stands in the file's name as a word of its own: Q4_K is not in
// model-Q4_K_M.gguf.
bool HasWord(std::string_view stem, std::string_view quantisation) {
  const std::string name = Upper(FileName(stem));
  const std::string word = Upper(quantisation);
  const auto edge = [&](size_t at) {
    return at >= name.size() || name[at] == '-' || name[at] == '.';
  };
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const bool starts = at == 0 || edge(at - 1) || name[at - 1] == '_';
    if (starts && edge(at + word.size())) return true;
  }
  return false;
}

std::string Listed(const std::map<std::string, std::vector<std::string>>& models) {
  std::string out;
  int shown = 0;
  for (const auto& [stem, parts] : models) {
    if (++shown > 30) return out + ", ...";
    out += fmt::format("{}{}", out.empty() ? "" : ", ", parts.front());
  }
  return out;
}

Result<Selection> SelectGguf(const std::vector<std::string>& files, const ModelId& id) {
  auto models = GgufModels(files);
  if (models.empty())
    return Err(Code::kNotFound,
               "{} holds no .gguf file; write {} alone for its safetensors weights", id.repo,
               id.repo);
  const auto take = [](std::vector<std::string> parts) {
    Selection selection;
    selection.entry = parts.front();
    selection.files = std::move(parts);
    return selection;
  };
  if (id.NamesFile()) {
    for (auto& [stem, parts] : models)
      if (std::find(parts.begin(), parts.end(), id.file) != parts.end())
        return take(std::move(parts));
    return Err(Code::kNotFound, "{} holds no file '{}'; it has: {}", id.repo, id.file,
               Listed(models));
  }
  if (id.file.empty() && models.size() == 1) return take(std::move(models.begin()->second));
  const std::string_view wanted = id.file.empty() ? kUsualQuantisation : std::string_view(id.file);
  std::erase_if(models, [&](const auto& model) { return !HasWord(model.first, wanted); });
  if (models.size() == 1) return take(std::move(models.begin()->second));
  const bool none = models.empty();
  return Err(Code::kNotFound,
             "{} holds {} of the quantisation {}; name one, e.g. {}:{} (it has: {})", id.repo,
             none ? "no model" : "several models", wanted, id.repo,
             (none ? GgufModels(files) : models).begin()->second.front(),
             Listed(none ? GgufModels(files) : models));
}

}  // namespace

Result<Selection> SelectFiles(const std::vector<std::string>& files, const ModelId& id) {
  if (!id.file.empty()) return SelectGguf(files, id);
  const auto holds = [&](std::string_view name) {
    return std::find(files.begin(), files.end(), name) != files.end();
  };
  if (!holds(kIndex) && !holds(kSingle)) {
    const bool any_gguf = std::any_of(files.begin(), files.end(), [](const std::string& path) {
      return path.ends_with(".gguf");
    });
    if (any_gguf) return SelectGguf(files, id);
    const bool pickled = std::any_of(files.begin(), files.end(), [](const std::string& path) {
      return path.ends_with(".bin") || path.ends_with(".pt") || path.ends_with(".pth");
    });
    return Err(pickled ? Code::kUnsupported : Code::kNotFound,
               "{} holds neither {}, nor {}, nor a .gguf file{}", id.repo, kSingle, kIndex,
               pickled ? ", only pickled weights, which run code when they are read: choose a "
                         "repository or revision with safetensors"
                       : ": it is no model that can be served");
  }
  Selection selection;
  for (const std::string_view name : kFolderFiles)
    if (holds(name)) selection.files.emplace_back(name);
  if (holds(kIndex)) selection.index = kIndex;
  selection.files.emplace_back(holds(kIndex) ? kIndex : kSingle);
  std::sort(selection.files.begin(), selection.files.end());
  return selection;
}

Result<std::vector<std::string>> ShardsOfIndex(std::string_view json) {
  const auto parsed = wire::ParseJson(json);
  const wire::Json* map = parsed ? parsed->Find("weight_map") : nullptr;
  if (map == nullptr || !map->IsObject() || map->AsObject().empty())
    return Err(Code::kCorrupt, "{} is damaged: it has no weight_map", kIndex);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->AsObject()) {
    // Shards lie beside the index.
    if (!file.IsString() || !IsRepoPath(file.AsString()) ||
        file.AsString().find('/') != std::string::npos)
      return Err(Code::kCorrupt, "{}: the file of tensor '{}' is no plain name", kIndex, tensor);
    names.insert(file.AsString());
    if (names.size() > kMaxShards)
      return Err(Code::kCorrupt, "{} names more than {} files", kIndex, kMaxShards);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace tandem::hub

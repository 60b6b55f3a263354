#include "model/model_files.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "wire/json.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kSingle = "model.safetensors";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 4096;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

Status CheckReadable(const fs::path& path) {
  if (access(path.c_str(), R_OK) == 0) return {};
  return Err(Code::kInvalidArgument, "{}: this user may not read it", path.string());
}

// Names of the regular files of a folder, sorted.
Result<std::vector<std::string>> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    if (IsFile(at->path())) names.push_back(at->path().filename().string());
  if (error)
    return Err(Code::kInvalidArgument, "{}: the folder cannot be read: {}", folder.string(),
               error.message());
  std::sort(names.begin(), names.end());
  return names;
}

Result<ModelFiles> GgufModel(const fs::path& file) {
  ModelFiles found;
  found.kind = ModelFiles::Kind::kGguf;
  found.folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const auto split = ParseSplitName(file.filename().string());
  if (!split) {
    TRY(CheckReadable(file));
    found.weights = {file.string()};
    return found;
  }
  for (int part = 1; part <= split->parts; ++part) {
    const fs::path path = file.parent_path() / SplitFileName(split->stem, part, split->parts);
    if (!IsFile(path))
      return Err(Code::kNotFound,
                 "{}: part {} of {} of this split model is missing; put all parts into one folder",
                 path.string(), part, split->parts);
    TRY(CheckReadable(path));
    found.weights.push_back(path.string());
  }
  return found;
}

Result<std::string> ReadIndexText(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxIndexBytes)
    return Err(Code::kInvalidArgument, "{}: cannot be read, or is larger than {} bytes",
               path.string(), kMaxIndexBytes);
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (!in || in.gcount() != static_cast<std::streamsize>(size))
    return Err(Code::kInvalidArgument, "{}: cannot be read", path.string());
  return text;
}

// The shards named by the index, each once and sorted. A name never leads out of the folder.
Result<std::vector<std::string>> ShardsOf(const fs::path& folder) {
  const fs::path path = folder / kIndex;
  TRY_ASSIGN(const std::string text, ReadIndexText(path));
  const auto json = wire::ParseJson(text);
  if (!json) return Err(Code::kCorrupt, "{}: {}", path.string(), json.error().message);
  const wire::Json* map = json->Find("weight_map");
  if (map == nullptr || !map->IsObject() || map->AsObject().empty())
    return Err(Code::kCorrupt, "{}: weight_map is missing or not an object of tensors and files",
               path.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->AsObject()) {
    if (!file.IsString() || file.AsString().empty())
      return Err(Code::kCorrupt, "{}: the file of tensor '{}' is not a name", path.string(),
                 tensor);
    if (file.AsString().find('/') != std::string::npos || file.AsString().starts_with('.'))
      return Err(Code::kCorrupt, "{}: tensor '{}' is said to lie in '{}', which is no plain name",
                 path.string(), tensor, file.AsString());
    names.insert(file.AsString());
    if (names.size() > kMaxShards)
      return Err(Code::kCorrupt, "{}: names more than {} files", path.string(), kMaxShards);
  }
  std::vector<std::string> shards;
  for (const std::string& name : names) {
    if (!IsFile(folder / name))
      return Err(Code::kNotFound,
                 "{}: the shard '{}', named by {}, is missing; download the model again, or that "
                 "file only",
                 folder.string(), name, kIndex);
    shards.push_back((folder / name).string());
  }
  return shards;
}

// What a folder holds instead of weights that can be read here.
std::unexpected<Error> NoWeights(const fs::path& folder, const std::vector<std::string>& names) {
  const auto find = [&](auto&& wanted) {
    const auto at = std::find_if(names.begin(), names.end(), wanted);
    return at == names.end() ? std::string() : *at;
  };
  const std::string stray =
      find([](const std::string& name) { return name.ends_with(".safetensors"); });
  if (!stray.empty())
    return Err(Code::kNotFound,
               "{}: holds '{}', but neither {} nor {}, which would name all of the weights; "
               "download the missing file",
               folder.string(), stray, kSingle, kIndex);
  const std::string pickled = find([](const std::string& name) {
    return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
  });
  if (!pickled.empty())
    return Err(
        Code::kUnsupported,
        "{}: its weights are pickled ('{}'), a format that runs code when it is read; convert "
        "them to safetensors (save_pretrained of Hugging Face transformers) or take a "
        "revision that has them",
        folder.string(), pickled);
  return Err(Code::kNotFound,
             "{}: no weights: neither {}, {} nor a .gguf file; download the model again",
             folder.string(), kSingle, kIndex);
}

// The models among a folder's .gguf files; the parts of a split one count as one. Files named
// mmproj-* hold the image encoder of a model, not a model.
std::vector<std::string> GgufModelsIn(const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    const auto split = ParseSplitName(name);
    if (!split || split->part == 1) models.push_back(name);
  }
  return models;
}

Result<ModelFiles> FolderModel(const fs::path& folder) {
  TRY_ASSIGN(const std::vector<std::string> names, NamesIn(folder));
  const auto holds = [&](std::string_view name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  ModelFiles found;
  found.kind = ModelFiles::Kind::kFolder;
  found.folder = folder.string();
  if (holds(kIndex)) {
    TRY_ASSIGN(found.weights, ShardsOf(folder));
  } else if (holds(kSingle)) {
    found.weights = {(folder / kSingle).string()};
  } else {
    const std::vector<std::string> models = GgufModelsIn(names);
    if (models.empty()) return NoWeights(folder, names);
    if (models.size() == 1) return GgufModel(folder / models.front());
    return Err(Code::kInvalidArgument,
               "{}: holds {} GGUF models ('{}', '{}', ...); write the path of one of them",
               folder.string(), models.size(), models[0], models[1]);
  }
  if (!holds(kConfig))
    return Err(Code::kNotFound,
               "{}: {} is missing, which describes the weights; download it from where they came",
               folder.string(), kConfig);
  for (const std::string& file : found.weights) TRY(CheckReadable(file));
  return found;
}

std::optional<int> FiveDigits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() != 5 || error != std::errc() || end != text.data() + 5 || value < 1)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<SplitName> ParseSplitName(std::string_view file_name) {
  constexpr std::string_view kShape = "-00001-of-00001.gguf";
  if (file_name.size() <= kShape.size() || !file_name.ends_with(".gguf")) return std::nullopt;
  const std::string_view tail = file_name.substr(file_name.size() - kShape.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const auto part = FiveDigits(tail.substr(1, 5));
  const auto parts = FiveDigits(tail.substr(10, 5));
  if (!part || !parts || *part > *parts) return std::nullopt;
  return SplitName{std::string(file_name.substr(0, file_name.size() - kShape.size())), *part,
                   *parts};
}

std::string SplitFileName(std::string_view stem, int part, int parts) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, parts);
}

Result<ModelFiles> FindModelFiles(const std::string& path) {
  if (IsFolder(path)) return FolderModel(path);
  if (!IsFile(path)) return Err(Code::kNotFound, "{}: there is no such file or folder", path);
  if (path.ends_with(".safetensors"))
    return Err(Code::kInvalidArgument,
               "{}: weights alone are no model: write the folder that holds them and config.json",
               path);
  return GgufModel(path);
}

}  // namespace tandem::model

#include "hub/resolve.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "base/log.h"
#include "hub/download.h"
#include "hub/model_id.h"
#include "hub/repo_cache.h"
#include "hub/select.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxIndexBytes = uintmax_t{64} << 20;

std::string ReadFile(const std::string& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kMaxIndexBytes || error) return {};
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string EntryPath(const std::string& snapshot, const Selection& selection) {
  return selection.entry.empty() ? snapshot : snapshot + "/" + selection.entry;
}

bool Has(const std::vector<std::string>& files, std::string_view name) {
  return std::binary_search(files.begin(), files.end(), name);
}

// The last number of a split file's name: of how many parts it is one.
size_t PartsOf(std::string_view path) {
  const size_t at = path.rfind("-of-");
  if (at == std::string_view::npos || !path.ends_with(".gguf")) return 1;
  size_t parts = 0;
  for (const char c : path.substr(at + 4, path.size() - at - 9)) {
    if (c < '0' || c > '9' || parts > 99999) return 1;
    parts = parts * 10 + static_cast<size_t>(c - '0');
  }
  return parts;
}

// One model that is to be found or fetched.
class Resolution {
 public:
  Resolution(const ResolveOptions& options, Settings settings, ModelId id)
      : options_(options),
        settings_(std::move(settings)),
        id_(std::move(id)),
        revision_(id_.revision.empty() ? "main" : id_.revision),
        cache_(settings_.cache, id_.repo) {}

  // From the cache alone: nothing if something is missing. Where the name leaves the choice among
  // GGUF files open, a cache with one of them does not decide it, unless the hub cannot be asked.
  std::optional<std::string> FromCache(bool hub_can_be_asked) const {
    const auto commit = cache_.CommitOf(revision_);
    if (!commit) return std::nullopt;
    const std::vector<std::string> files = cache_.FilesOf(*commit);
    const auto selection = SelectFiles(files, id_);
    if (!selection) return std::nullopt;
    const std::string snapshot = cache_.SnapshotPath(*commit);
    if (!selection->entry.empty()) {
      if (id_.file.empty() && hub_can_be_asked) return std::nullopt;
      if (selection->files.size() != PartsOf(selection->entry)) return std::nullopt;
    } else {
      const bool tokenizer = Has(files, "tokenizer.json") || Has(files, "tokenizer.model") ||
                             Has(files, "tekken.json");
      if (!tokenizer || !Has(files, "config.json")) return std::nullopt;
      if (!selection->index.empty()) {
        const auto shards = ShardsOfIndex(ReadFile(snapshot + "/" + selection->index));
        if (!shards || !std::all_of(shards->begin(), shards->end(),
                                    [&](const std::string& shard) { return Has(files, shard); }))
          return std::nullopt;
      }
    }
    LOG_INFO("{}: found in {}", id_.repo, snapshot);
    return EntryPath(snapshot, *selection);
  }

  Result<std::string> Find() {
    if (auto path = FromCache(!settings_.offline)) return *std::move(path);
    if (settings_.offline)
      return Err(Code::kNotFound,
                 "{} (revision {}) is not complete in the cache, and HF_HUB_OFFLINE forbids to "
                 "download it. {}",
                 id_.repo, revision_, Remedy());
    const HubClient client(settings_, options_.retry);
    auto info = client.Info(id_.repo, revision_);
    if (info) return Download(client, *info);
    if (!MayPass(info.error()))
      return std::unexpected(
          Error{info.error().code,
                fmt::format("{} (revision {}): {}", id_.repo, revision_, info.error().message),
                info.error().param});
    if (auto path = FromCache(false)) return *std::move(path);
    return Err(info.error().code,
               "{} (revision {}) is not in the cache, and the hub cannot be "
               "asked: {}. {}",
               id_.repo, revision_, info.error().message, Remedy());
  }

 private:
  Result<std::string> Download(const HubClient& client, const RepoInfo& info) {
    std::vector<std::string> names;
    for (const RemoteFile& file : info.files) {
      names.push_back(file.path);
      sizes_[file.path] = file.size;
    }
    TRY_ASSIGN(Selection selection, SelectFiles(names, id_));
    const std::string snapshot = cache_.SnapshotPath(info.commit);
    if (!selection.index.empty()) {
      // Small, and says what else is needed.
      TRY(Fetch(client, info.commit, {selection.index}));
      TRY_ASSIGN(const auto shards, ShardsOfIndex(ReadFile(snapshot + "/" + selection.index)));
      std::erase(selection.files, selection.index);
      selection.files.insert(selection.files.end(), shards.begin(), shards.end());
    }
    TRY(Fetch(client, info.commit, selection.files));
    TRY(cache_.WriteRef(revision_, info.commit));
    LOG_INFO("{}: downloaded to {}", id_.repo, snapshot);
    return EntryPath(snapshot, selection);
  }

  Status Fetch(const HubClient& client, const std::string& commit,
               const std::vector<std::string>& files) {
    uint64_t total = 0;
    for (const std::string& file : files) total += sizes_[file];
    std::mutex mutex;
    uint64_t done = 0;
    for (const std::string& file : files) {
      const auto on_bytes = [&](uint64_t bytes) {
        const std::lock_guard lock(mutex);
        done += bytes;
        if (options_.on_progress) options_.on_progress(file, std::min(done, total), total);
      };
      auto fetched = DownloadFile(client, cache_, id_.repo, commit, file,
                                  {.chunk_bytes = options_.chunk_bytes, .on_bytes = on_bytes});
      if (!fetched && MayPass(fetched.error()))
        fetched.error().message += ". What has arrived is kept: start again to go on";
      TRY(fetched);
    }
    return {};
  }

  // Which folder to fill, and how.
  std::string Remedy() const {
    return fmt::format(
        "Fetch it on a machine that has a network (hf download {}) and copy the "
        "folder "
        "{} here; or put its files (config.json, tokenizer.json, *.safetensors; or one .gguf file) "
        "into any folder and write that path as the model",
        id_.repo, cache_.folder());
  }

  const ResolveOptions& options_;
  const Settings settings_;
  const ModelId id_;
  const std::string revision_;
  const RepoCache cache_;
  std::map<std::string, uint64_t> sizes_;
};

bool LooksLikePath(std::string_view model) {
  return model.starts_with('/') || model.starts_with('.') || model.starts_with('~') ||
         (model.ends_with(".gguf") && model.find(':') == std::string_view::npos);
}

}  // namespace

Result<ResolvedModel> Resolve(const ResolveOptions& options) {
  std::error_code error;
  const fs::file_status file = fs::status(options.model, error);
  if (fs::is_regular_file(file) || fs::is_directory(file)) {
    if (!options.revision.empty())
      return FieldErr("--revision", "--revision {}: '{}' is a path, which has no revisions",
                      options.revision, options.model);
    return ResolvedModel{options.model, options.model, false};
  }
  auto id = LooksLikePath(options.model) ? std::nullopt : ParseModelId(options.model);
  if (!id)
    return FieldErr("--model",
                    "model '{}': there is no such file or folder, and it is no name on the Hugging "
                    "Face hub either (org/name, org/name:Q4_K_M, org/name@revision)",
                    options.model);
  if (!options.revision.empty()) {
    if (!id->revision.empty() && id->revision != options.revision)
      return FieldErr("--revision", "--revision {} and the model's name, '{}', name two revisions",
                      options.revision, options.model);
    if (!IsRevision(options.revision))
      return FieldErr("--revision", "--revision '{}' is no branch, tag or commit",
                      options.revision);
    id->revision = options.revision;
  }
  TRY_ASSIGN(Settings settings, ReadSettings(options.environment));
  Resolution resolution(options, std::move(settings), *std::move(id));
  TRY_ASSIGN(std::string path, resolution.Find());
  return ResolvedModel{std::move(path), options.model, true};
}

}  // namespace tandem::hub

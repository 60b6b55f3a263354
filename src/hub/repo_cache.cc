#include "hub/repo_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "hub/model_id.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 100'000;

Status MakeFolderOf(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (!error) return {};
  return Err(Code::kResourceExhausted,
             "the folder {} cannot be made: {}; HF_HUB_CACHE names another place",
             file.parent_path().string(), error.message());
}

std::string FolderName(std::string_view repo) {
  std::string name = "models--";
  for (const char c : repo) {
    if (c == '/')
      name += "--";
    else
      name.push_back(c);
  }
  return name;
}

}  // namespace

Result<FileLock> FileLock::Take(const std::string& path) {
  TRY(MakeFolderOf(path));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return Err(Code::kResourceExhausted, "{} cannot be opened: {}", path, std::strerror(errno));
  FileLock lock(fd);
  int code = 0;
  do {
    code = flock(fd, LOCK_EX);
  } while (code != 0 && errno == EINTR);
  if (code != 0)
    return Err(Code::kResourceExhausted, "{} cannot be locked: {}", path, std::strerror(errno));
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

RepoCache::RepoCache(std::string cache, std::string_view repo)
    : cache_(std::move(cache)), name_(FolderName(repo)), folder_(cache_ + "/" + name_) {}

std::string RepoCache::SnapshotPath(std::string_view commit) const {
  return fmt::format("{}/snapshots/{}", folder_, commit);
}
std::string RepoCache::BlobPath(std::string_view etag) const {
  return fmt::format("{}/blobs/{}", folder_, etag);
}
std::string RepoCache::LockPath(std::string_view etag) const {
  return fmt::format("{}/.locks/{}/{}.lock", cache_, name_, etag);
}

std::optional<std::string> RepoCache::CommitOf(std::string_view revision) const {
  std::error_code error;
  if (IsCommit(revision) && fs::is_directory(SnapshotPath(revision), error))
    return std::string(revision);
  std::ifstream in(fmt::format("{}/refs/{}", folder_, revision));
  std::string commit;
  if (!(in >> commit) || !IsCommit(commit)) return std::nullopt;
  return commit;
}

std::vector<std::string> RepoCache::FilesOf(std::string_view commit) const {
  const fs::path snapshot = SnapshotPath(commit);
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(snapshot, error);
  for (; !error && at != fs::recursive_directory_iterator() && files.size() < kMaxFiles;
       at.increment(error)) {
    std::error_code ignored;
    // Follows the link: one without its blob is as good as absent.
    if (fs::is_regular_file(at->path(), ignored))
      files.push_back(at->path().lexically_relative(snapshot).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status RepoCache::Link(std::string_view commit, std::string_view path,
                       std::string_view etag) const {
  const fs::path link = fs::path(SnapshotPath(commit)) / path;
  TRY(MakeFolderOf(link));
  std::error_code error;
  if (fs::equivalent(link, BlobPath(etag), error)) return {};
  const fs::path target = fs::path(BlobPath(etag)).lexically_relative(link.parent_path());
  const fs::path temporary = fmt::format("{}.{}", link.string(), getpid());
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error)
    fs::rename(BlobPath(etag), link, error);
  else
    fs::rename(temporary, link, error);
  if (!error) return {};
  return Err(Code::kResourceExhausted, "{} cannot be made: {}", link.string(), error.message());
}

Status RepoCache::WriteRef(std::string_view revision, std::string_view commit) const {
  if (revision == commit) return {};
  const fs::path ref = fmt::format("{}/refs/{}", folder_, revision);
  TRY(MakeFolderOf(ref));
  const fs::path temporary = fmt::format("{}.{}", ref.string(), getpid());
  std::error_code error;
  // Without a line break, as huggingface_hub reads it.
  if (!(std::ofstream(temporary) << commit).flush())
    return Err(Code::kResourceExhausted, "{} cannot be written", temporary.string());
  fs::rename(temporary, ref, error);
  if (!error) return {};
  return Err(Code::kResourceExhausted, "{} cannot be written: {}", ref.string(), error.message());
}

bool IsBlobName(std::string_view etag) {
  return !etag.empty() && etag.size() <= 128 && etag.front() != '.' &&
         std::all_of(etag.begin(), etag.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace tandem::hub

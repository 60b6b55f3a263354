// One repository in the Hugging Face cache, laid out as huggingface_hub does it, so that both may
// read and fill it, also at the same time:
//   CACHE/models--ORG--NAME/blobs/ETAG                contents; ETAG.incomplete while it is fetched
//   CACHE/models--ORG--NAME/snapshots/COMMIT/PATH     links to them
//   CACHE/models--ORG--NAME/refs/REVISION             the commit that a branch or tag stands for
//   CACHE/.locks/models--ORG--NAME/ETAG.lock          held (flock) while a blob is written
#ifndef TANDEM_HUB_REPO_CACHE_H_
#define TANDEM_HUB_REPO_CACHE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::hub {

// Held until destroyed.
class FileLock {
 public:
  // Makes the file and its folders; waits for whoever holds it.
  static Result<FileLock> Take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

class RepoCache {
 public:
  // `repo` is "org/name", checked.
  RepoCache(std::string cache, std::string_view repo);

  const std::string& folder() const { return folder_; }
  std::string SnapshotPath(std::string_view commit) const;
  std::string BlobPath(std::string_view etag) const;
  std::string LockPath(std::string_view etag) const;

  // What the cache knows: a commit stands for itself if there is a snapshot of it.
  std::optional<std::string> CommitOf(std::string_view revision) const;
  // Paths of the files of a snapshot whose contents are there, sorted.
  std::vector<std::string> FilesOf(std::string_view commit) const;

  // Makes PATH of the snapshot a link to the blob, or the blob itself where the file system has no
  // links. `path` is checked by IsRepoPath, `etag` by IsBlobName.
  Status Link(std::string_view commit, std::string_view path, std::string_view etag) const;
  Status WriteRef(std::string_view revision, std::string_view commit) const;

 private:
  std::string cache_;
  std::string name_;    // "models--org--name"
  std::string folder_;  // CACHE/models--org--name
};

// An etag that may be a file's name.
bool IsBlobName(std::string_view etag);

}  // namespace tandem::hub

#endif  // TANDEM_HUB_REPO_CACHE_H_

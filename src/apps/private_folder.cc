#include "apps/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cluster/file_discovery.h"
#include "cluster/instance_file.h"

namespace tandem::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "serve-";
constexpr std::string_view kLockName = "/supervisor.lock";

int LockIn(const std::string& folder, int flags) {
  const int fd = open((folder + std::string(kLockName)).c_str(),
                      O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

void RemoveAbandoned(const std::string& root) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const int fd = LockIn(entry.path().string(), 0);
    if (fd < 0) continue;
    fs::remove_all(entry.path(), error);
    close(fd);
  }
}

}  // namespace

Result<std::unique_ptr<PrivateFolder>> PrivateFolder::Make() {
  const std::string root = cluster::DefaultDiscoveryFolder();
  TRY(cluster::EnsurePrivateFolder(root));
  RemoveAbandoned(root);
  // A sweeping neighbour may lock (and remove) a folder in the instant before its maker does.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::string path = root + "/" + std::string(kPrefix) + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) break;
    const int fd = LockIn(path, O_CREAT);
    if (fd >= 0) return std::unique_ptr<PrivateFolder>(new PrivateFolder(std::move(path), fd));
  }
  return Err(Code::kResourceExhausted, "cannot make a folder in '{}': {}", root,
             std::strerror(errno));
}

PrivateFolder::~PrivateFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  close(lock_fd_);
}

}  // namespace tandem::apps

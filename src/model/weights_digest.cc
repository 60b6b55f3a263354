#include "model/weights_digest.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/hash.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigest = 64;

bool IsHexDigest(const std::string& text) {
  return text.size() == kHexDigest && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string ReadKept(const fs::path& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return IsHexDigest(text) ? text : std::string();
}

// Best effort: without the note the next start computes the digest again.
void Keep(const fs::path& path, const std::string& digest) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string temporary = fmt::format("{}.{}", path.string(), getpid());
  {
    std::ofstream out(temporary);
    out << digest << '\n';
    if (!out) return;
  }
  fs::rename(temporary, path, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace

Result<std::string> WeightsDigestOf(std::span<const std::byte> file, const std::string& path,
                                    const std::string& cache_dir) {
  if (cache_dir.empty()) return Hex(Sha256(file));
  struct stat info{};
  if (stat(path.c_str(), &info) != 0)
    return Err(Code::kNotFound, "cannot look at {}: {}", path, std::strerror(errno));
  const std::string identity =
      fmt::format("{}\n{}\n{}.{}\n{}\n{}", fs::absolute(path).string(), info.st_size,
                  info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_dev, info.st_ino);
  const fs::path note = fs::path(cache_dir) / "digests" / Hex(Sha256(identity));
  std::string digest = ReadKept(note);
  if (digest.empty()) {
    digest = Hex(Sha256(file));
    Keep(note, digest);
  }
  return digest;
}

}  // namespace tandem::model

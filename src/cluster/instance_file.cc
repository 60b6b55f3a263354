#include "cluster/instance_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/hash.h"

namespace tandem::cluster {
namespace {

constexpr std::string_view kMagic = "tandem-instance";
constexpr std::string_view kVersion = "1";
constexpr size_t kMaxHeaderBytes = 256;

std::string Reason() { return std::strerror(errno); }

template <class Int>
bool ParseWhole(std::string_view text, int base, Int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> SplitWords(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t space = line.find(' ');
    words.push_back(line.substr(0, space));
    if (space == std::string_view::npos) break;
    line.remove_prefix(space + 1);
  }
  return words;
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Err(Code::kResourceExhausted, "cannot write: {}", Reason());
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<std::string> ReadAll(int fd, size_t size) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t n = pread(fd, bytes.data() + have, size - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err(Code::kCorrupt, "cannot read: {}", Reason());
    if (n == 0) return Err(Code::kCorrupt, "file became shorter while it was read");
    have += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::string EncodeInstanceFile(const InstanceRecord& record) {
  const wire::Bytes payload = wire::Encode(record.instance);
  std::string bytes = fmt::format("{} {} {} {} {} {:016x}\n", kMagic, kVersion,
                                  record.boot_id.empty() ? "-" : record.boot_id,
                                  record.locked ? 1 : 0, record.sequence, Xxh3(payload));
  bytes.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return bytes;
}

Result<InstanceRecord> DecodeInstanceFile(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t end = text.substr(0, kMaxHeaderBytes).find('\n');
  if (end == std::string_view::npos) return Err(Code::kCorrupt, "no header line");
  const auto words = SplitWords(text.substr(0, end));
  if (words.size() < 6 || words[0] != kMagic) return Err(Code::kCorrupt, "not an instance file");
  if (words[1] != kVersion)
    return Err(Code::kIncompatible, "instance file of version '{}', this build reads {}", words[1],
               kVersion);
  InstanceRecord record;
  if (words[2] != "-") record.boot_id = words[2];
  record.locked = words[3] == "1";
  uint64_t checksum = 0;
  if (!ParseWhole(words[4], 10, record.sequence) || !ParseWhole(words[5], 16, checksum))
    return Err(Code::kCorrupt, "bad number in the header line");
  const auto payload = bytes.subspan(end + 1);
  if (Xxh3(payload) != checksum) return Err(Code::kCorrupt, "checksum differs");
  TRY_ASSIGN(record.instance, wire::DecodeInstance(payload));
  return record;
}

std::string InstanceFileName(uint64_t id) { return fmt::format("{:016x}{}", id, kInstanceSuffix); }

std::optional<uint64_t> InstanceIdOfFileName(std::string_view name) {
  if (name.size() != 16 + kInstanceSuffix.size() || !name.ends_with(kInstanceSuffix)) return {};
  uint64_t id = 0;
  if (!ParseWhole(name.substr(0, 16), 16, id) || InstanceFileName(id) != name) return {};
  return id;
}

const std::string& BootId() {
  static const std::string id = [] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string line;
    std::getline(file, line);
    return line.find(' ') == std::string::npos && line.size() <= 64 ? line : std::string();
  }();
  return id;
}

Status EnsurePrivateFolder(const std::string& folder) {
  if (!folder.starts_with('/'))
    return Err(Code::kInvalidArgument, "discovery folder '{}' is not absolute: write the full path",
               folder);
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1))
    mkdir(folder.substr(0, slash).c_str(), 0700);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Err(Code::kResourceExhausted,
               "cannot make the discovery folder '{}': {}; name another one with --discovery-path",
               folder, Reason());
  struct stat info = {};
  if (lstat(folder.c_str(), &info) != 0)
    return Err(Code::kResourceExhausted, "cannot look at '{}': {}", folder, Reason());
  if (!S_ISDIR(info.st_mode))
    return Err(Code::kInvalidArgument, "'{}' is not a folder; name another with --discovery-path",
               folder);
  if (info.st_uid != geteuid() || (info.st_mode & 0022) != 0)
    return Err(Code::kInvalidArgument,
               "discovery folder '{}' belongs to uid {} with mode {:o}: others could add workers "
               "to it; chown it to uid {} and chmod 700 it, or name another with --discovery-path",
               folder, info.st_uid, info.st_mode & 07777, geteuid());
  return {};
}

Result<Fd> WriteInstanceFile(const std::string& folder, InstanceRecord record) {
  const std::string path = folder + "/" + InstanceFileName(record.instance.id);
  const std::string aside = path + ".new";
  unlink(aside.c_str());
  Fd fd(open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.Valid()) return Err(Code::kResourceExhausted, "cannot write '{}': {}", aside, Reason());
  // Locked before it has its name: no reader can see it unlocked while its writer lives.
  record.locked = flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  const std::string bytes = EncodeInstanceFile(record);
  if (bytes.size() > kMaxInstanceFileBytes) {
    unlink(aside.c_str());
    return Err(Code::kTooLarge, "instance record of {} bytes, at most {} fit", bytes.size(),
               kMaxInstanceFileBytes);
  }
  if (auto written = WriteAll(fd.get(), bytes); !written) {
    unlink(aside.c_str());
    return std::unexpected(std::move(written).error());
  }
  if (rename(aside.c_str(), path.c_str()) != 0) {
    const std::string why = Reason();
    unlink(aside.c_str());
    return Err(Code::kResourceExhausted, "cannot rename to '{}': {}", path, why);
  }
  return fd;
}

Result<OpenInstance> ReadInstanceFile(const std::string& folder, uint64_t id, uint32_t owner_uid) {
  const std::string path = folder + "/" + InstanceFileName(id);
  OpenInstance opened;
  opened.fd = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.fd.Valid())
    return Err(errno == ENOENT ? Code::kNotFound : Code::kCorrupt, "cannot open: {}", Reason());
  struct stat info = {};
  if (fstat(opened.fd.get(), &info) != 0) return Err(Code::kCorrupt, "cannot stat: {}", Reason());
  if (!S_ISREG(info.st_mode)) return Err(Code::kCorrupt, "not a regular file");
  if (info.st_uid != owner_uid)
    return Err(Code::kCorrupt, "owned by uid {}, expected {}", info.st_uid, owner_uid);
  if (info.st_size <= 0 || static_cast<size_t>(info.st_size) > kMaxInstanceFileBytes)
    return Err(Code::kCorrupt, "size {} is outside 1..{}", info.st_size, kMaxInstanceFileBytes);
  TRY_ASSIGN(const std::string bytes, ReadAll(opened.fd.get(), static_cast<size_t>(info.st_size)));
  TRY_ASSIGN(opened.record, DecodeInstanceFile(std::as_bytes(std::span(bytes))));
  if (opened.record.instance.id != id)
    return Err(Code::kCorrupt, "it describes instance {:016x}", opened.record.instance.id);
  return opened;
}

FileState StateOf(const OpenInstance& open) {
  const bool lock_tells =
      open.record.locked && !open.record.boot_id.empty() && open.record.boot_id == BootId();
  const bool free = lock_tells && flock(open.fd.get(), LOCK_SH | LOCK_NB) == 0;
  if (free) flock(open.fd.get(), LOCK_UN);
  // After the lock test, not before: a renewal renames first and lets go of the old file's lock
  // after that, so a freed lock on a file that still has its name means that the writer died.
  struct stat info = {};
  if (fstat(open.fd.get(), &info) != 0 || info.st_nlink == 0) return FileState::kReplaced;
  return free ? FileState::kOrphaned : FileState::kHeld;
}

}  // namespace tandem::cluster

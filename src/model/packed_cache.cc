#include "model/packed_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/hash.h"
#include "base/log.h"
#include "model/pack_rows.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

// A file is one page of header, the image, then a checksum of each chunk of the image: a flipped
// bit would be wrong text at every start, in all workers that share the file.
constexpr size_t kHeaderBytes = 4096;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr std::string_view kSuffix = ".pack";

struct Header {
  std::array<char, 16> magic;
  uint64_t bytes;
  std::array<char, 128> key;
};

Header HeaderOf(const PackPlan& plan, const std::string& key) {
  Header header{};
  std::memcpy(header.magic.data(), "tandem pack\n", 12);
  header.bytes = plan.bytes;
  std::memcpy(header.key.data(), key.data(), std::min(key.size(), header.key.size()));
  return header;
}

size_t ChunksOf(size_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }
size_t FileBytes(const PackPlan& plan) {
  return kHeaderBytes + plan.bytes + ChunksOf(plan.bytes) * sizeof(uint64_t);
}

std::vector<uint64_t> ChecksumsOf(const std::byte* image, size_t bytes, Team& team) {
  std::vector<uint64_t> sums(ChunksOf(bytes));
  team.Run([&](TeamMember& member) {
    const auto index = static_cast<size_t>(member.index());
    const auto count = static_cast<size_t>(member.count());
    for (size_t i = sums.size() * index / count; i < sums.size() * (index + 1) / count; ++i)
      sums[i] = Xxh3({image + i * kChunkBytes, std::min(kChunkBytes, bytes - i * kChunkBytes)});
  });
  return sums;
}

Status CheckImage(int fd, const std::byte* image, size_t bytes, const std::string& path,
                  Team& team) {
  std::vector<uint64_t> kept(ChunksOf(bytes));
  const size_t wanted = kept.size() * sizeof(uint64_t);
  if (pread(fd, kept.data(), wanted, static_cast<off_t>(kHeaderBytes + bytes)) !=
          static_cast<ssize_t>(wanted) ||
      kept != ChecksumsOf(image, bytes, team))
    return Err(Code::kCorrupt, "{} is damaged: its checksums do not fit its bytes", path);
  return {};
}

// Closes a descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status PackAll(const PackPlan& plan, std::byte* image, Team& team,
               const std::function<void(double)>& progress) {
  size_t done = 0;
  for (const PackPiece& piece : plan.pieces) {
    const PackSource& source = piece.source;
    if (source.scales != nullptr && HasFp8Nan(source.tensor->bytes))
      return Err(Code::kCorrupt, "tensor {} holds values that are not numbers",
                 source.tensor->name);
    const size_t panels = (source.outputs + kPanel - 1) / kPanel;
    team.Run([&](TeamMember& member) {
      const auto index = static_cast<size_t>(member.index());
      const auto count = static_cast<size_t>(member.count());
      for (size_t p = panels * index / count; p < panels * (index + 1) / count; ++p)
        PackPanel(source, p, image + piece.offset + p * piece.stride);
    });
    done += panels * PanelBytes(source.format, source.inputs);
    if (progress) progress(static_cast<double>(done) / static_cast<double>(plan.bytes));
  }
  return {};
}

// Reads the image into huge pages, which file mappings do not get: a lone row streams 13 % faster
// through them (measured). All members read, since the first touch of a page clears it.
Result<PackedImage> ReadImage(int fd, size_t bytes, const std::string& path, Team& team) {
  TRY_ASSIGN(Mapping mapping, Mapping::Anonymous(bytes));
  std::byte* data = mapping.data();
  std::atomic<bool> complete{true};
  team.Run([&](TeamMember& member) {
    const auto index = static_cast<size_t>(member.index());
    const auto count = static_cast<size_t>(member.count());
    const size_t end = bytes * (index + 1) / count;
    for (size_t at = bytes * index / count; at < end;) {
      const ssize_t got = pread(fd, data + at, end - at, static_cast<off_t>(kHeaderBytes + at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        complete = false;
        return;
      }
      at += static_cast<size_t>(got);
    }
  });
  if (!complete) return Err(Code::kCorrupt, "{} cannot be read to its end", path);
  return PackedImage{std::move(mapping), data, true};
}

// An error that only says why the cache was not used.
Result<PackedImage> OpenCached(const PackPlan& plan, const std::string& key,
                               const std::string& path, Team& team) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return Err(Code::kNotFound, "{}: {}", path, std::strerror(errno));
  struct stat info{};
  Header found{};
  const Header wanted = HeaderOf(plan, key);
  if (fstat(file.get(), &info) != 0 || static_cast<size_t>(info.st_size) != FileBytes(plan) ||
      pread(file.get(), &found, sizeof(found), 0) != static_cast<ssize_t>(sizeof(found)) ||
      std::memcmp(&found, &wanted, sizeof(found)) != 0)
    return Err(Code::kCorrupt, "{} is not a complete packed file of this model", path);
  // Its time of modification is its time of last use, for TrimPacked.
  futimens(file.get(), nullptr);
  PackedImage image;
  if (plan.bytes <= kCopiedImageBytes) {
    TRY_ASSIGN(image, ReadImage(file.get(), plan.bytes, path, team));
  } else {
    TRY_ASSIGN(image.mapping, Mapping::File(file.get(), FileBytes(plan), false, path));
    image.data = image.mapping.data() + kHeaderBytes;
    image.from_cache = true;
  }
  TRY(CheckImage(file.get(), image.data, plan.bytes, path, team));
  return image;
}

Status WriteFile(const PackPlan& plan, const std::string& key, const std::string& path, Team& team,
                 const std::function<void(double)>& progress) {
  const size_t bytes = FileBytes(plan);
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0)
    return Err(Code::kResourceExhausted, "cannot create {}: {}", path, std::strerror(errno));
  // Reserved now, since a full disk would otherwise show as a fault while writing to the mapping.
  if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return Err(Code::kResourceExhausted, "cannot reserve {} bytes in {}: {}", bytes, path,
               std::strerror(error));
  {
    TRY_ASSIGN(const Mapping mapping, Mapping::File(file.get(), bytes, true, path));
    const Header header = HeaderOf(plan, key);
    std::memcpy(mapping.data(), &header, sizeof(header));
    std::byte* image = mapping.data() + kHeaderBytes;
    TRY(PackAll(plan, image, team, progress));
    const std::vector<uint64_t> sums = ChecksumsOf(image, plan.bytes, team);
    std::memcpy(image + plan.bytes, sums.data(), sums.size() * sizeof(uint64_t));
  }
  if (fdatasync(file.get()) != 0)
    return Err(Code::kResourceExhausted, "cannot write {}: {}", path, std::strerror(errno));
  return {};
}

Status CreateFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return Err(Code::kResourceExhausted, "cannot create {}: {}", folder.string(), error.message());
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error)
    return Err(Code::kResourceExhausted, "cannot set the mode of {}: {}", folder.string(),
               error.message());
  return {};
}

// Packs into a file beside the final one and renames it, so that a reader finds all or nothing.
Result<PackedImage> CreateCached(const PackPlan& plan, const std::string& key, const fs::path& path,
                                 Team& team, const std::function<void(double)>& progress) {
  TRY(CreateFolder(path.parent_path()));
  const std::string temporary = fmt::format("{}.{}", path.string(), getpid());
  std::error_code error;
  if (Status written = WriteFile(plan, key, temporary, team, progress); !written) {
    fs::remove(temporary, error);
    return std::unexpected(std::move(written).error());
  }
  fs::rename(temporary, path, error);
  if (error) {
    fs::remove(temporary, error);
    return Err(Code::kResourceExhausted, "cannot create {}", path.string());
  }
  TrimPacked(path.parent_path().string(), path.string(), kPackedCacheBytes);
  TRY_ASSIGN(PackedImage image, OpenCached(plan, key, path.string(), team));
  image.from_cache = false;
  return image;
}

}  // namespace

void TrimPacked(const std::string& folder, const std::string& keep, uintmax_t bytes) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uintmax_t bytes;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (!item.path().filename().string().contains(kSuffix)) continue;
    const uintmax_t size = item.file_size(error);
    if (error) continue;
    total += size;
    if (item.path() != keep) entries.push_back({item.path(), item.last_write_time(error), size});
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= bytes) return;
    if (fs::remove(entry.path, error)) total -= entry.bytes;
  }
}

Result<PackedImage> LoadPacked(const PackPlan& plan, const std::string& key,
                               const std::string& cache_dir, Team& team,
                               const std::function<void(double)>& progress) {
  if (!cache_dir.empty()) {
    const fs::path path = fs::path(cache_dir) / "packed" / (key + std::string(kSuffix));
    Result<PackedImage> image = OpenCached(plan, key, path.string(), team);
    if (!image && image.error().code == Code::kCorrupt)
      LOG_WARN("packing the weights again: {}", image.error().message);
    if (!image) image = CreateCached(plan, key, path, team, progress);
    if (image) return image;
    LOG_WARN(
        "packed weights are kept in memory and will be packed again at the next start: {}; make "
        "the folder writable or choose another one",
        image.error().message);
  }
  TRY_ASSIGN(Mapping mapping, Mapping::Anonymous(plan.bytes));
  TRY(PackAll(plan, mapping.data(), team, progress));
  const std::byte* data = mapping.data();
  return PackedImage{std::move(mapping), data, false};
}

}  // namespace tandem::model

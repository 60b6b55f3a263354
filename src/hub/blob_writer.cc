#include "hub/blob_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace tandem::hub {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A download that stops in the middle for want of space helps nobody.
Status CheckSpace(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error || space.available >= bytes) return {};
  return Err(
      Code::kResourceExhausted,
      "{} has {:.1f} GB free, but {:.1f} GB are to be downloaded; make room, or name another "
      "place in HF_HUB_CACHE",
      folder, static_cast<double>(space.available) / 1e9, static_cast<double>(bytes) / 1e9);
}

}  // namespace

BlobWriter::BlobWriter(std::string blob, const FileMeta& meta, int fd)
    : blob_(std::move(blob)),
      partial_(blob_ + ".incomplete"),
      meta_(meta),
      fd_(fd),
      digest_(std::make_unique<Sha256Stream>()) {}

BlobWriter::~BlobWriter() { close(fd_); }

std::unexpected<Error> BlobWriter::Failed(std::string_view what) const {
  return Err(Code::kResourceExhausted, "{} cannot be {}: {}", partial_, what, std::strerror(errno));
}

Result<std::unique_ptr<BlobWriter>> BlobWriter::Open(const std::string& blob,
                                                     const FileMeta& meta) {
  const std::filesystem::path folder = std::filesystem::path(blob).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string partial = blob + ".incomplete";
  const int fd = open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return Err(Code::kResourceExhausted, "{} cannot be opened: {}", partial, std::strerror(errno));
  std::unique_ptr<BlobWriter> writer(new BlobWriter(blob, meta, fd));
  TRY(writer->ReadBeginning());
  TRY(CheckSpace(folder.string(), meta.size - writer->written_));
  return writer;
}

Status BlobWriter::ReadBeginning() {
  std::vector<std::byte> buffer(size_t{1} << 20);
  while (true) {
    const ssize_t n = read(fd_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read");
    if (n == 0) return {};
    digest_->Update(std::span(buffer).first(static_cast<size_t>(n)));
    written_ += static_cast<uint64_t>(n);
    if (written_ > meta_.size) return StartOver();
  }
}

Status BlobWriter::Append(std::string_view bytes) {
  if (bytes.size() > meta_.size - written_)
    return Err(Code::kCorrupt, "the server sends more than the {} bytes that it announced",
               meta_.size);
  digest_->Update(BytesOf(bytes));
  written_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("written");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status BlobWriter::StartOver() {
  written_ = 0;
  digest_ = std::make_unique<Sha256Stream>();
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) return Failed("truncated");
  return {};
}

Status BlobWriter::Finish() {
  const std::string digest = Hex(digest_->Finish());
  if (written_ != meta_.size || (meta_.sha256 && digest != meta_.etag)) {
    std::remove(partial_.c_str());
    return Err(Code::kCorrupt,
               "the download is damaged ({} bytes with SHA-256 {}, expected {} with {}), and was "
               "thrown away; start again to fetch it anew",
               written_, digest, meta_.size, meta_.sha256 ? meta_.etag : "any");
  }
  if (fsync(fd_) != 0) return Failed("flushed");
  if (std::rename(partial_.c_str(), blob_.c_str()) != 0) return Failed("renamed");
  return {};
}

}  // namespace tandem::hub

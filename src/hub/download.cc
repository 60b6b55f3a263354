#include "hub/download.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hub/blob_writer.h"
#include "rt/thread.h"

namespace tandem::hub {
namespace {

// The first byte that an answer to a range holds: "bytes 100-199/1000" -> 100.
std::optional<uint64_t> RangeStart(std::optional<std::string_view> text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text || !text->starts_with(kUnit)) return std::nullopt;
  uint64_t start = 0;
  const char* from = text->data() + kUnit.size();
  const auto read = std::from_chars(from, text->data() + text->size(), start);
  if (read.ec != std::errc() || read.ptr == text->data() + text->size() || *read.ptr != '-')
    return std::nullopt;
  return start;
}

// One file under way. The threads take ranges in order and hand their bytes to the writer in order;
// none runs ahead by more than there are connections.
class Transfer {
 public:
  Transfer(const HubClient& client, std::string repo, std::string commit, std::string path,
           FileMeta meta, BlobWriter& writer, const DownloadOptions& options)
      : client_(client),
        repo_(std::move(repo)),
        commit_(std::move(commit)),
        path_(std::move(path)),
        meta_(std::move(meta)),
        writer_(writer),
        options_(options),
        begin_(writer.written()),
        chunks_((meta_.size - begin_ + options.chunk_bytes - 1) / options.chunk_bytes) {}

  Status Run() {
    if (options_.on_bytes) options_.on_bytes(begin_);
    if (chunks_ == 0) return {};
    // The first range shows whether the server knows ranges, and is all of a small file.
    auto first = FetchChunk(0);
    if (!first) {
      if (first.error().code == Code::kUnsupported && no_ranges_) return FetchWhole();
      return std::unexpected(std::move(first).error());
    }
    TRY(writer_.Append(*first));
    next_ = delivered_ = 1;
    {
      std::vector<std::unique_ptr<rt::Thread>> threads;
      const auto count =
          std::min<uint64_t>(static_cast<uint64_t>(options_.connections), chunks_ - 1);
      for (uint64_t i = 0; i < count; ++i)
        threads.push_back(std::make_unique<rt::Thread>("download", [this] { Work(); }));
    }
    return status_;
  }

 private:
  uint64_t BeginOf(uint64_t chunk) const { return begin_ + chunk * options_.chunk_bytes; }

  // A thread's life.
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        return !status_ || next_ == chunks_ ||
               next_ < delivered_ + static_cast<uint64_t>(options_.connections);
      });
      if (!status_ || next_ == chunks_) return;
      const uint64_t chunk = next_++;
      lock.unlock();
      auto bytes = FetchChunk(chunk);
      lock.lock();
      if (status_) status_ = Deliver(chunk, std::move(bytes));
      changed_.notify_all();
    }
  }

  Status Deliver(uint64_t chunk, Result<std::string> bytes) {
    if (!bytes) return std::unexpected(std::move(bytes).error());
    waiting_.emplace(chunk, *std::move(bytes));
    while (!waiting_.empty() && waiting_.begin()->first == delivered_) {
      TRY(writer_.Append(waiting_.begin()->second));
      waiting_.erase(waiting_.begin());
      ++delivered_;
    }
    return {};
  }

  Result<std::string> FetchChunk(uint64_t chunk) {
    const uint64_t begin = BeginOf(chunk);
    const uint64_t size = std::min(options_.chunk_bytes, meta_.size - begin);
    std::string bytes;
    bytes.reserve(size);
    for (int failed = 0; bytes.size() < size;) {
      const size_t before = bytes.size();
      const Status status = FetchRange(begin, size, bytes);
      if (status && bytes.size() > before) continue;
      if (!status && !MayPass(status.error()) && status.error().code != Code::kNotFound)
        return std::unexpected(status.error());
      failed = bytes.size() > before ? 0 : failed + 1;
      if (failed >= client_.retry().attempts)
        return Err(Code::kUnavailable, "{} of {} could not be fetched, after {} attempts: {}",
                   path_, repo_, failed, status ? "no bytes came" : status.error().message);
      if (Stopped()) return Err(Code::kCancelled, "another range failed");
      Pause(client_.retry(), failed);
      // A signed address may have lost its worth.
      TRY(FindAgain());
    }
    return bytes;
  }

  // Appends what arrives of the range's rest.
  Status FetchRange(uint64_t begin, uint64_t size, std::string& bytes) {
    net::WebRequest request;
    request.url = Location();
    const uint64_t from = begin + bytes.size();
    request.headers.Add("range", fmt::format("bytes={}-{}", from, begin + size - 1));
    request.on_head = [&](int status, const net::HttpHeaders& headers) -> Status {
      if (status == 206 && RangeStart(headers.Find("content-range")) == from) return {};
      no_ranges_ = status == 200;
      return Err(Code::kUnsupported, "the server of {} does not send the range asked for", path_);
    };
    request.on_body = [&](std::string_view piece) -> Status {
      if (piece.size() > size - bytes.size())
        return Err(Code::kCorrupt, "the server of {} sends more than the range asked for", path_);
      bytes += piece;
      if (options_.on_bytes) options_.on_bytes(piece.size());
      return {};
    };
    return Ended(client_.Get(std::move(request)));
  }

  // For a server without ranges: from the start to the end, anew after each failure.
  Status FetchWhole() {
    for (int failed = 0;;) {
      TRY(writer_.StartOver());
      net::WebRequest request;
      request.url = Location();
      request.max_body_bytes = meta_.size + 1;
      request.on_body = [&](std::string_view piece) -> Status {
        if (options_.on_bytes) options_.on_bytes(piece.size());
        return writer_.Append(piece);
      };
      const Status status = Ended(client_.Get(std::move(request)));
      if (status || !MayPass(status.error()) || ++failed >= client_.retry().attempts) return status;
      Pause(client_.retry(), failed);
    }
  }

  static Status Ended(const Result<net::HttpResponse>& response) {
    return response ? Status() : Status(std::unexpected(response.error()));
  }

  net::Url Location() {
    const std::lock_guard lock(mutex_);
    return meta_.location;
  }
  bool Stopped() {
    const std::lock_guard lock(mutex_);
    return !status_.has_value();
  }
  Status FindAgain() {
    auto again = client_.Describe(repo_, commit_, path_);
    if (!again) return MayPass(again.error()) ? Status() : Status(std::unexpected(again.error()));
    if (again->etag != meta_.etag || again->size != meta_.size)
      return Err(Code::kCorrupt, "{} of {} changed while it was fetched", path_, repo_);
    const std::lock_guard lock(mutex_);
    meta_.location = again->location;
    return {};
  }

  const HubClient& client_;
  const std::string repo_;
  const std::string commit_;
  const std::string path_;
  FileMeta meta_;  // its location under the mutex
  BlobWriter& writer_;
  const DownloadOptions& options_;
  const uint64_t begin_;
  const uint64_t chunks_;
  bool no_ranges_ = false;  // set by the first range only

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;       // the first range that nobody has taken
  uint64_t delivered_ = 0;  // ranges written
  std::map<uint64_t, std::string> waiting_;
  Status status_;
};

}  // namespace

Status DownloadFile(const HubClient& client, const RepoCache& cache, const std::string& repo,
                    const std::string& commit, const std::string& path,
                    const DownloadOptions& options) {
  TRY_ASSIGN(const FileMeta meta, client.Describe(repo, commit, path));
  const std::string blob = cache.BlobPath(meta.etag);
  TRY_ASSIGN(const FileLock lock, FileLock::Take(cache.LockPath(meta.etag)));
  std::error_code error;
  if (std::filesystem::file_size(blob, error) == meta.size && !error) {
    if (options.on_bytes) options.on_bytes(meta.size);
  } else {
    TRY_ASSIGN(const auto writer, BlobWriter::Open(blob, meta));
    TRY(Transfer(client, repo, commit, path, meta, *writer, options).Run());
    auto finished = writer->Finish();
    if (!finished) {
      finished.error().message = fmt::format("{} of {}: {}", path, repo, finished.error().message);
      return finished;
    }
  }
  return cache.Link(commit, path, meta.etag);
}

}  // namespace tandem::hub

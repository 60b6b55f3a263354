#include "net/http_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/check.h"

namespace tandem::net {
namespace {

constexpr size_t kRoomForHead = 128;  // status line, date, connection

// Beyond this much unsent, Write waits for the client.
constexpr size_t kUnsentAtMost = 256u << 10;

// "Mon, 30 Nov 2026 13:00:00 GMT", formatted once a second.
std::string_view HttpDate(int64_t unix_millis) {
  thread_local int64_t second = -1;
  thread_local std::string text;
  if (unix_millis / 1000 != second) {
    second = unix_millis / 1000;
    text =
        fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(static_cast<std::time_t>(second)));
  }
  return text;
}

}  // namespace

HttpWriter::HttpWriter(rt::TaskScope& scope, rt::Stream& stream, Options options,
                       std::function<void()> cut_off)
    : scope_(scope),
      stream_(stream),
      options_(options),
      cut_off_(std::move(cut_off)),
      progress_(scope.runtime()) {}

Status HttpWriter::Gone() const {
  return Err(Code::kConnectionLost, "the client closed the connection");
}

void HttpWriter::AppendHead(int status, const HttpHeaders& headers, std::string_view framing,
                            size_t room) {
  started_ = true;
  size_t size = framing.size() + kRoomForHead;
  for (const auto& [name, value] : headers.fields()) size += name.size() + value.size() + 4;
  pending_.reserve(pending_.size() + size + room);
  pending_ += "HTTP/1.1 ";
  pending_ += fmt::format_int(status).c_str();
  pending_ += ' ';
  pending_ += HttpReason(status);
  pending_ += "\r\ndate: ";
  pending_ += HttpDate(scope_.runtime().UnixMillis());
  pending_ += "\r\n";
  pending_ += framing;
  if (!options_.keep_alive)
    pending_ += "connection: close\r\n";
  else if (!options_.http11)
    pending_ += "connection: keep-alive\r\n";  // not implied before HTTP/1.1
  for (const auto& [name, value] : headers.fields()) {
    pending_ += name;
    pending_ += ": ";
    const size_t start = pending_.size();
    pending_ += value;
    // A line break inside a value would let its origin write headers of its own.
    for (size_t i = start; i < pending_.size(); ++i)
      if (pending_[i] == '\r' || pending_[i] == '\n') pending_[i] = ' ';
    pending_ += "\r\n";
  }
  pending_ += "\r\n";
}

rt::Task<Status> HttpWriter::Respond(int status, HttpHeaders headers, std::string body) {
  CHECK(!started_);
  std::string framing = "content-length: ";
  framing += fmt::format_int(body.size()).c_str();
  framing += "\r\n";
  AppendHead(status, headers, framing, body.size());
  if (!options_.head_only) pending_ += body;
  finished_ = true;
  FlushNow();
  if (flushing_) co_await Drain();
  if (broken_) co_return Gone();
  co_return Status();
}

rt::Task<Status> HttpWriter::StartStream(int status, HttpHeaders headers) {
  CHECK(!started_);
  chunked_ = options_.http11;
  // Without chunks only the end of the connection ends the body.
  if (!chunked_) options_.keep_alive = false;
  AppendHead(status, headers, chunked_ ? "transfer-encoding: chunked\r\n" : "");
  FlushSoon();
  if (broken_) co_return Gone();
  co_return Status();
}

rt::Task<Status> HttpWriter::Write(std::string_view chunk) {
  CHECK(started_ && !finished_);
  if (broken_) co_return Gone();
  if (chunk.empty() || options_.head_only) co_return Status();
  if (chunked_) fmt::format_to(std::back_inserter(pending_), "{:x}\r\n", chunk.size());
  pending_ += chunk;
  if (chunked_) pending_ += "\r\n";
  FlushSoon();
  while (pending_.size() > kUnsentAtMost && !broken_) CO_TRY(co_await progress_.Wait());
  if (broken_) co_return Gone();
  co_return Status();
}

rt::Task<Status> HttpWriter::Finish() {
  CHECK(started_ && !finished_);
  finished_ = true;
  if (chunked_ && !options_.head_only) pending_ += "0\r\n\r\n";
  FlushNow();
  if (flushing_) co_await Drain();
  if (broken_) co_return Gone();
  co_return Status();
}

bool HttpWriter::Interim() {
  if (started_ || broken_ || !options_.http11) return false;
  // 100 is the one interim status that even simple clients expect at any time.
  pending_ += "HTTP/1.1 100 Continue\r\n\r\n";
  FlushSoon();
  return true;
}

rt::Task<void> HttpWriter::Drain() {
  // The wait has no token: a flush always ends, by its write timeout at the latest.
  while (flushing_) {
    if (auto woken = co_await progress_.Wait(); !woken) co_return;
  }
}

void HttpWriter::FlushNow() {
  if (flushing_ || broken_ || pending_.empty()) return;
  const auto sent = stream_.TryWrite(std::as_bytes(std::span(pending_)));
  if (!sent) return CutOff();
  if (*sent == pending_.size())
    pending_.clear();
  else
    pending_.erase(0, *sent);
  FlushSoon();
}

void HttpWriter::FlushSoon() {
  if (flushing_ || broken_ || pending_.empty()) return;
  flushing_ = true;
  scope_.Spawn(Flush());
}

void HttpWriter::CutOff() {
  broken_ = true;
  pending_.clear();
  cut_off_();
}

rt::Task<void> HttpWriter::Flush() {
  std::string sending;
  while (!pending_.empty() && !broken_) {
    sending.clear();
    sending.swap(pending_);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(sending));
    // Nearly always the socket takes all of it, and nothing has to be timed.
    const auto sent = stream_.TryWrite(bytes);
    Status written = sent ? Status() : std::unexpected(sent.error());
    if (sent && *sent < bytes.size()) {
      rt::CancelSource timeout;
      const auto timer =
          scope_.runtime().RunAt(scope_.runtime().Now() + options_.write_timeout, [&timeout] {
            timeout.Cancel({Code::kDeadlineExceeded, "the client does not read its answer", {}});
          });
      written = co_await stream_.Write(bytes.subspan(*sent), timeout.Token());
    }
    if (!written) CutOff();
    progress_.WakeAll();
  }
  flushing_ = false;
  progress_.WakeAll();
}

}  // namespace tandem::net

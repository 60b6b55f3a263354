#include "xfer/frame_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "xfer/deadline.h"

namespace tandem::xfer::internal {
namespace {

Error Stalled(std::string_view peer, Duration timeout) {
  return {Code::kConnectionLost,
          fmt::format("{} did not answer for {} ms", peer, ToMillis(timeout)),
          {}};
}

}  // namespace

rt::Task<Result<size_t>> FrameStream::ReadSome(std::span<std::byte> into, rt::CancelToken cancel,
                                               Duration timeout) {
  const DeadlineScope limit(runtime_, cancel, runtime_.Now() + timeout,
                            Stalled(stream_->PeerName(), timeout));
  CO_TRY_ASSIGN(const size_t got, co_await stream_->Read(into, limit.Token()));
  if (got == 0) {
    co_return Err(Code::kConnectionLost, "{} closed the connection", stream_->PeerName());
  }
  co_return got;
}

rt::Task<Status> FrameStream::ReadInto(std::span<std::byte> into, rt::CancelToken cancel) {
  const size_t ready = std::min(into.size(), end_ - begin_);
  std::memcpy(into.data(), buffer_.data() + begin_, ready);
  begin_ += ready;
  into = into.subspan(ready);
  while (!into.empty()) {
    CO_TRY_ASSIGN(const size_t got, co_await ReadSome(into, cancel, io_timeout_));
    into = into.subspan(got);
  }
  co_return Status();
}

rt::Task<Result<FrameHeader>> FrameStream::ReadHeader(rt::CancelToken cancel, Duration first_byte) {
  while (end_ - begin_ < kFrameHeaderBytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const Duration timeout = end_ == 0 ? first_byte : io_timeout_;
    CO_TRY_ASSIGN(const size_t got,
                  co_await ReadSome(std::span(buffer_).subspan(end_), cancel, timeout));
    end_ += got;
  }
  const auto bytes = std::span<const std::byte>(buffer_).subspan(begin_);
  begin_ += kFrameHeaderBytes;
  co_return DecodeHeader(bytes.first<kFrameHeaderBytes>());
}

rt::Task<Result<std::vector<std::byte>>> FrameStream::ReadBody(size_t bytes,
                                                               rt::CancelToken cancel) {
  // Grows as bytes arrive, so that a peer cannot reserve memory by announcing a size.
  constexpr size_t kStep = 64 * 1024;
  std::vector<std::byte> body;
  while (body.size() < bytes) {
    const size_t at = body.size();
    body.resize(std::min(bytes, at + kStep));
    CO_TRY(co_await ReadInto(std::span(body).subspan(at), cancel));
  }
  co_return body;
}

rt::Task<Result<Message>> FrameStream::ReadMessage(rt::CancelToken cancel, Duration first_byte) {
  CO_TRY_ASSIGN(const FrameHeader header, co_await ReadHeader(cancel, first_byte));
  if (header.type == MessageType::kData) {
    co_return Err(Code::kCorrupt, "a data frame on the KV side channel where none is expected");
  }
  Message message;
  message.type = header.type;
  CO_TRY_ASSIGN(message.body, co_await ReadBody(header.body_bytes, cancel));
  co_return message;
}

rt::Task<Status> FrameStream::WriteBytes(std::span<const std::byte> bytes, rt::CancelToken cancel) {
  const DeadlineScope limit(runtime_, cancel, runtime_.Now() + io_timeout_,
                            Stalled(stream_->PeerName(), io_timeout_));
  co_return co_await stream_->Write(bytes, limit.Token());
}

rt::Task<Status> FrameStream::Write(Frame frame, rt::CancelToken cancel) {
  co_return co_await WriteBytes(frame, std::move(cancel));
}

}  // namespace tandem::xfer::internal

// Frames of the side channel over a byte stream. Every wait ends: with bytes, with the caller's
// token, or after a time without progress.
#ifndef TANDEM_XFER_FRAME_STREAM_H_
#define TANDEM_XFER_FRAME_STREAM_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "rt/cancel.h"
#include "rt/runtime.h"
#include "rt/stream.h"
#include "rt/task.h"
#include "xfer/side_channel.h"

namespace tandem::xfer::internal {

struct Message {
  MessageType type = MessageType::kError;
  std::vector<std::byte> body;
};

// One reader and one writer at a time. After an error it is of no more use.
class FrameStream {
 public:
  // `io_timeout`: how long a read or a write may make no progress.
  FrameStream(rt::Runtime& runtime, std::unique_ptr<rt::Stream> stream, Duration io_timeout)
      : runtime_(runtime), stream_(std::move(stream)), io_timeout_(io_timeout) {}

  // Waits up to `first_byte` for a frame to begin.
  rt::Task<Result<FrameHeader>> ReadHeader(rt::CancelToken cancel, Duration first_byte);
  // A whole frame, its body bounded by DecodeHeader. Data frames are kCorrupt here.
  rt::Task<Result<Message>> ReadMessage(rt::CancelToken cancel, Duration first_byte);
  rt::Task<Result<std::vector<std::byte>>> ReadBody(size_t bytes, rt::CancelToken cancel);
  // Fills `into`, without a copy in between where the bytes are not here yet.
  rt::Task<Status> ReadInto(std::span<std::byte> into, rt::CancelToken cancel);

  rt::Task<Status> Write(Frame frame, rt::CancelToken cancel);
  // The bytes stay valid until it is done.
  rt::Task<Status> WriteBytes(std::span<const std::byte> bytes, rt::CancelToken cancel);

  rt::Stream& stream() { return *stream_; }

 private:
  rt::Task<Result<size_t>> ReadSome(std::span<std::byte> into, rt::CancelToken cancel,
                                    Duration timeout);

  rt::Runtime& runtime_;
  std::unique_ptr<rt::Stream> stream_;
  Duration io_timeout_;
  std::array<std::byte, 4096> buffer_;  // bytes read ahead: [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace tandem::xfer::internal

#endif  // TANDEM_XFER_FRAME_STREAM_H_

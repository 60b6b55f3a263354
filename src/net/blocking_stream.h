// A TCP connection, with TLS or without, that blocks its thread: for downloads outside of any loop.
#ifndef TANDEM_NET_BLOCKING_STREAM_H_
#define TANDEM_NET_BLOCKING_STREAM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace tandem::net {

class BlockingStream {
 public:
  // Tries each address of the host in turn. With TLS (1.2 or newer) the certificate must be valid
  // for the host by the system's authorities, or those of SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
  // CURL_CA_BUNDLE. kUnavailable if nobody answers there, kDeadlineExceeded after `timeout` for one
  // address, kIncompatible if TLS fails.
  static Result<std::unique_ptr<BlockingStream>> Connect(const std::string& host, uint16_t port,
                                                         bool tls, Duration timeout);
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

  // Both wait at most `idle` for the peer: kDeadlineExceeded after that, kConnectionLost when the
  // connection breaks.
  Status Write(std::span<const std::byte> bytes, Duration idle);
  // 0 at the end. A TLS connection that ends without saying so is kConnectionLost.
  Result<size_t> Read(std::span<std::byte> into, Duration idle);

 private:
  struct Impl;
  explicit BlockingStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net

#endif  // TANDEM_NET_BLOCKING_STREAM_H_

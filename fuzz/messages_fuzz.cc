// Any bytes as a message of the request plane or a discovery record: what decodes encodes to
// something that decodes to the same bytes again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "wire/messages.h"

namespace {

template <class Decode>
void RoundTrip(std::span<const std::byte> bytes, Decode decode) {
  const auto message = decode(bytes);
  if (!message) return;
  const auto encoded = tandem::wire::Encode(*message);
  const auto again = decode(std::span<const std::byte>(encoded));
  CHECK(again.has_value());
  CHECK(tandem::wire::Encode(*again) == encoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::wire;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  RoundTrip(bytes, DecodeGenerateRequest);
  RoundTrip(bytes, DecodeGenerateItem);
  RoundTrip(bytes, DecodeArtifactRequest);
  RoundTrip(bytes, DecodeReleaseRequest);
  RoundTrip(bytes, DecodeInstance);
  return 0;
}

// Digests. SHA-256 names content (model card, packed weights); XXH3 is for tables, never identity.
#ifndef TANDEM_BASE_HASH_H_
#define TANDEM_BASE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

using Digest = std::array<uint8_t, 32>;

Digest Sha256(std::span<const std::byte> bytes);
Digest Sha256(std::string_view text);
std::string Hex(std::span<const uint8_t> bytes);
void AppendHex(uint64_t number, std::string& out);  // 16 digits, as Hex writes them
uint64_t Xxh3(std::span<const std::byte> bytes, uint64_t seed = 0);

// SHA-256 of bytes that arrive in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;
  void Update(std::span<const std::byte> bytes);
  Digest Finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tandem

#endif  // TANDEM_BASE_HASH_H_

#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"

namespace tandem {

struct Sha256Stream::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256Stream::Sha256Stream() : context_(std::make_unique<Context>()) {
  CHECK(context_->md != nullptr && EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1);
}
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::Update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

Digest Sha256Stream::Finish() {
  Digest digest;
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), &size) == 1 && size == digest.size());
  return digest;
}

Digest Sha256(std::span<const std::byte> bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

Digest Sha256(std::string_view text) { return Sha256(std::as_bytes(std::span(text))); }

std::string Hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

void AppendHex(uint64_t number, std::string& out) {
  for (int shift = 60; shift >= 0; shift -= 4)
    out.push_back("0123456789abcdef"[number >> shift & 15]);
}

uint64_t Xxh3(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace tandem

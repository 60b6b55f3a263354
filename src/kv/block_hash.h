// Chained block hashes, byte for byte those of vLLM's `sha256_cbor`: the hash of a full block is
// SHA-256 over the canonical CBOR of (parent hash, token ids, extra keys or null). Equal hashes
// mean equal tokens from position 0 on, so a hash names the whole prefix that ends with its block.
#ifndef TANDEM_KV_BLOCK_HASH_H_
#define TANDEM_KV_BLOCK_HASH_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "kv/ids.h"

namespace tandem::kv {

using BlockHash = Digest;

// For hash tables: a digest is already uniform, so its first bytes serve.
struct BlockHashHasher {
  size_t operator()(const BlockHash& hash) const {
    size_t value;
    std::memcpy(&value, hash.data(), sizeof(value));
    return value;
  }
};

// The parent of every first block. `seed` is the text of PYTHONHASHSEED where that is set (all
// workers and routers that compare hashes must agree on it); otherwise a fixed text stands in.
BlockHash RootHash(std::optional<std::string_view> seed = std::nullopt);

// Hash of one full block. `salt` is the request's cache salt for the block at token 0 and empty
// for all others: chaining carries it on.
BlockHash HashBlock(const BlockHash& parent, std::span<const TokenId> tokens,
                    std::string_view salt = {});

// The 64-bit form that KV events publish: the digest's last 8 bytes, big-endian.
uint64_t EventHash(const BlockHash& hash);

// Hashes one sequence as it grows. Holds at most one partial block of tokens plus 32 bytes per
// full block. Not thread-safe.
class SequenceHasher {
 public:
  // block_tokens > 0.
  SequenceHasher(const BlockHash& root, int block_tokens, std::string_view salt = {});

  void Append(std::span<const TokenId> tokens);
  void Append(TokenId token) { Append(std::span(&token, 1)); }
  // One hash per full block so far, first block first.
  std::span<const BlockHash> hashes() const { return hashes_; }
  int64_t tokens() const {
    return static_cast<int64_t>(hashes_.size() * block_tokens_ + pending_.size());
  }
  int block_tokens() const { return static_cast<int>(block_tokens_); }

 private:
  void Seal(std::span<const TokenId> block);

  BlockHash parent_;
  size_t block_tokens_;
  std::string salt_;              // until the first block is sealed
  std::vector<TokenId> pending_;  // fewer than block_tokens_
  std::vector<BlockHash> hashes_;
};

}  // namespace tandem::kv

#endif  // TANDEM_KV_BLOCK_HASH_H_

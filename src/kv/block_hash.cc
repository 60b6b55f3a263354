#include "kv/block_hash.h"

#include "base/check.h"

namespace tandem::kv {
namespace {

constexpr std::string_view kDefaultSeed = "vllm-none-hash";
constexpr std::string_view kSaltTag = "cache_salt";

// CBOR major types, in the top three bits of an item's first byte (RFC 8949).
constexpr uint8_t kUnsigned = 0;
constexpr uint8_t kBytes = 2;
constexpr uint8_t kText = 3;
constexpr uint8_t kArray = 4;
constexpr uint8_t kNull = 0xf6;

// Appends the canonical CBOR of the few shapes that block hashes need.
class CborWriter {
 public:
  explicit CborWriter(std::vector<uint8_t>& out) : out_(out) {}

  // An item's head: its type and its value or length, in the shortest form.
  void Head(uint8_t major, uint64_t value) {
    const auto type = static_cast<uint8_t>(major << 5);
    if (value < 24) {
      out_.push_back(static_cast<uint8_t>(type | value));
    } else if (value <= 0xff) {
      Sized(type | 24, value, 1);
    } else if (value <= 0xffff) {
      Sized(type | 25, value, 2);
    } else if (value <= 0xffffffff) {
      Sized(type | 26, value, 4);
    } else {
      Sized(type | 27, value, 8);
    }
  }
  void Text(std::string_view text) {
    Head(kText, text.size());
    out_.insert(out_.end(), text.begin(), text.end());
  }
  void Bytes(std::span<const uint8_t> bytes) {
    Head(kBytes, bytes.size());
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void Null() { out_.push_back(kNull); }

 private:
  void Sized(int first, uint64_t value, int bytes) {
    out_.push_back(static_cast<uint8_t>(first));
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
      out_.push_back(static_cast<uint8_t>(value >> shift));
    }
  }
  std::vector<uint8_t>& out_;
};

}  // namespace

BlockHash RootHash(std::optional<std::string_view> seed) {
  std::vector<uint8_t> cbor;
  CborWriter(cbor).Text(seed.value_or(kDefaultSeed));
  return Sha256(std::as_bytes(std::span(cbor)));
}

BlockHash HashBlock(const BlockHash& parent, std::span<const TokenId> tokens,
                    std::string_view salt) {
  std::vector<uint8_t> cbor;
  cbor.reserve(48 + tokens.size() * 5 + salt.size());
  CborWriter writer(cbor);
  writer.Head(kArray, 3);
  writer.Bytes(parent);
  writer.Head(kArray, tokens.size());
  for (const TokenId token : tokens) writer.Head(kUnsigned, static_cast<uint32_t>(token));
  if (salt.empty()) {
    writer.Null();
  } else {
    writer.Head(kArray, 1);  // one extra key, tagged by its kind
    writer.Head(kArray, 2);
    writer.Text(kSaltTag);
    writer.Text(salt);
  }
  return Sha256(std::as_bytes(std::span(cbor)));
}

uint64_t EventHash(const BlockHash& hash) {
  uint64_t value = 0;
  for (size_t i = hash.size() - 8; i < hash.size(); ++i) value = value << 8 | hash[i];
  return value;
}

SequenceHasher::SequenceHasher(const BlockHash& root, int block_tokens, std::string_view salt)
    : parent_(root), block_tokens_(static_cast<size_t>(block_tokens)), salt_(salt) {
  CHECK(block_tokens > 0);
  pending_.reserve(block_tokens_);
}

void SequenceHasher::Append(std::span<const TokenId> tokens) {
  while (!tokens.empty()) {
    if (pending_.empty() && tokens.size() >= block_tokens_) {
      Seal(tokens.first(block_tokens_));
      tokens = tokens.subspan(block_tokens_);
      continue;
    }
    const size_t take = std::min(block_tokens_ - pending_.size(), tokens.size());
    pending_.insert(pending_.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(take));
    tokens = tokens.subspan(take);
    if (pending_.size() == block_tokens_) {
      Seal(pending_);
      pending_.clear();
    }
  }
}

void SequenceHasher::Seal(std::span<const TokenId> block) {
  parent_ = HashBlock(parent_, block, salt_);
  salt_.clear();
  hashes_.push_back(parent_);
}

}  // namespace tandem::kv

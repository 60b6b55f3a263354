// What must be equal on both sides before a block's bytes mean the same.
#ifndef TANDEM_XFER_IDENTITY_H_
#define TANDEM_XFER_IDENTITY_H_

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tandem::xfer {

struct KvIdentity {
  std::string model_digest;  // SHA-256 (hex) of the weights' identity
  std::string layout_id;     // docs/contracts/kv-layout.md
  std::string dtype;         // of K and V, e.g. "f16"
  uint32_t block_tokens = 0;
  uint64_t block_bytes = 0;
  // Instruction-set path, KV dtype, kernel version. May differ: the transfer then works, but the
  // output is no longer bit for bit that of one worker alone.
  std::string numerics_id;
  friend bool operator==(const KvIdentity&, const KvIdentity&) = default;
};

// kIncompatible naming the first field that differs and both values; numerics_id is not looked at.
Status CheckCompatible(const KvIdentity& reader, const KvIdentity& owner);

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_IDENTITY_H_

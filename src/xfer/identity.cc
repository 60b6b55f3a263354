#include "xfer/identity.h"

#include <string_view>

namespace tandem::xfer {
namespace {

Status SameField(std::string_view field, std::string_view reader, std::string_view owner,
                 std::string_view remedy) {
  if (reader == owner) return {};
  return Err(Code::kIncompatible,
             "KV cannot be handed over: {} is '{}' on the decode worker, '{}' "
             "on the prefill worker; {}",
             field, reader, owner, remedy);
}

}  // namespace

Status CheckCompatible(const KvIdentity& reader, const KvIdentity& owner) {
  TRY(SameField("model digest", reader.model_digest, owner.model_digest,
                "start both with the same model file"));
  TRY(SameField("KV dtype", reader.dtype, owner.dtype,
                "start both with the same --kv-cache-dtype"));
  TRY(SameField("block size", std::to_string(reader.block_tokens),
                std::to_string(owner.block_tokens), "start both with the same --block-size"));
  TRY(SameField("KV layout", reader.layout_id, owner.layout_id, "run the same version on both"));
  return SameField("bytes per block", std::to_string(reader.block_bytes),
                   std::to_string(owner.block_bytes), "run the same version on both");
}

}  // namespace tandem::xfer

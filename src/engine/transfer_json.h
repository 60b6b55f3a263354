// kv_transfer_params, the JSON object that carries a hand-over through the frontend.
#ifndef TANDEM_ENGINE_TRANSFER_JSON_H_
#define TANDEM_ENGINE_TRANSFER_JSON_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/sequence.h"
#include "xfer/transfer_params.h"

namespace tandem::engine {

struct ParsedTransfer {
  Leg leg = Leg::kWhole;
  std::optional<xfer::TransferParams> remote;  // of a decode leg
};

// Text from a request; empty text is a whole request. Everything is checked here (types, ranges,
// lengths), so that what comes out is safe to act on; whether it is true only the owner knows.
// kInvalidArgument names the field.
Result<ParsedTransfer> ParseTransfer(std::string_view json);

std::string WriteTransfer(const xfer::TransferParams& params);

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_TRANSFER_JSON_H_

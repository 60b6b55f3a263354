// Any bytes as the body of a request: the reader refuses or returns a value that writes back to the
// same value, and the fault finder agrees with it; every endpoint accepts the body or names a
// fault.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error_table.h"
#include "frontend/request.h"
#include "wire/json.h"

namespace {

template <class T>
void CheckOutcome(const tandem::Result<T>& result) {
  if (result) return;
  CHECK(!result.error().message.empty());
  const int status = tandem::RowOf(result.error().code).http_status;
  CHECK(status == 400 || status == 413);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::wire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckOutcome(tandem::frontend::ParseChatRequest(text));
  CheckOutcome(tandem::frontend::ParseCompletionRequest(text));
  CheckOutcome(tandem::frontend::ParseTokenizeRequest(text));
  CheckOutcome(tandem::frontend::ParseDetokenizeRequest(text));
  JsonLimits limits;
  limits.max_values = 10000;
  const auto json = ParseJson(text, limits);
  if (!json) return 0;
  CHECK(!FindJsonFault(text, limits.max_depth).has_value());
  const auto again = ParseJson(ToJsonText(*json), limits);
  CHECK(again.has_value());
  CHECK(*again == *json);
  return 0;
}

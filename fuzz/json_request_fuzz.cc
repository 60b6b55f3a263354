// Any bytes as the body of a request: the reader refuses or returns a value that writes back to the
// same value, and the fault finder agrees with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::wire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
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

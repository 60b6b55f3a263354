// JSON to template values and back.
#ifndef TANDEM_TEXT_JSON_H_
#define TANDEM_TEXT_JSON_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/value.h"

namespace tandem::wire {
class Json;
}

namespace tandem::text {

// Integers beyond int64 become floats.
Value ValueFromJson(const wire::Json& json);
// Reads the text first; fails as wire::ParseJson does.
Result<Value> ValueFromJson(std::string_view json);

struct ToJsonOptions {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // one level of indentation; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  size_t max_bytes = size_t{1} << 26;
};

// Python's json.dumps. Fails for a value that JSON cannot express (undefined, macros, cycles).
Result<std::string> ToJson(const Value& value, const ToJsonOptions& options = {});

}  // namespace tandem::text

#endif  // TANDEM_TEXT_JSON_H_

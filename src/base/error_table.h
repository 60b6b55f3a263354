// One table from error codes to what a client sees and what a router may do about them.
#ifndef TANDEM_BASE_ERROR_TABLE_H_
#define TANDEM_BASE_ERROR_TABLE_H_

#include <string_view>

#include "base/result.h"

namespace tandem {

struct ErrorRow {
  Code code;
  std::string_view name;  // snake case, used in metrics and logs
  int http_status;
  std::string_view openai_type;  // error.type of an OpenAI error body
  bool retry_elsewhere;          // a request without output may be tried on another worker
};

// Always finds a row: every Code has one (tested exhaustively).
const ErrorRow& RowOf(Code code);

}  // namespace tandem

#endif  // TANDEM_BASE_ERROR_TABLE_H_

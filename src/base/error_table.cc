#include "base/error_table.h"

#include <array>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::array kRows = {
    ErrorRow{Code::kOk, "ok", 200, "", false},
    ErrorRow{Code::kInvalidArgument, "invalid_argument", 400, "invalid_request_error", false},
    ErrorRow{Code::kNotFound, "not_found", 404, "not_found_error", false},
    ErrorRow{Code::kTooLarge, "too_large", 413, "invalid_request_error", false},
    ErrorRow{Code::kContextLength, "context_length", 400, "invalid_request_error", false},
    ErrorRow{Code::kOverloaded, "overloaded", 529, "overloaded_error", true},
    ErrorRow{Code::kUnavailable, "unavailable", 503, "service_unavailable", true},
    ErrorRow{Code::kDeadlineExceeded, "deadline_exceeded", 504, "timeout_error", false},
    ErrorRow{Code::kCancelled, "cancelled", 499, "cancelled_error", false},
    ErrorRow{Code::kConnectionLost, "connection_lost", 502, "service_unavailable", true},
    ErrorRow{Code::kStale, "stale", 500, "internal_error", false},
    ErrorRow{Code::kIncompatible, "incompatible", 503, "service_unavailable", false},
    ErrorRow{Code::kCorrupt, "corrupt", 500, "internal_error", false},
    ErrorRow{Code::kUnsupported, "unsupported", 400, "invalid_request_error", false},
    ErrorRow{Code::kResourceExhausted, "resource_exhausted", 503, "service_unavailable", true},
    ErrorRow{Code::kInternal, "internal", 500, "internal_error", false},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<size_t>(kRows[i].code) != i) return false;
  return true;
}
static_assert(InOrder(), "rows are found by index");

}  // namespace

const ErrorRow& RowOf(Code code) {
  const auto index = static_cast<size_t>(code);
  return index < kRows.size() ? kRows[index] : kRows.back();
}

std::string_view CodeName(Code code) { return RowOf(code).name; }

}  // namespace tandem

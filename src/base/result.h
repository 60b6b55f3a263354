// Errors as values. Every fallible call returns Result<T>; nothing throws across a module boundary.
#ifndef TANDEM_BASE_RESULT_H_
#define TANDEM_BASE_RESULT_H_

#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// What went wrong, in terms a caller can act on. base/error_table.h maps each code to an HTTP
// status, an OpenAI error type and whether another attempt may help; the wire carries the number,
// so values are never reused.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,     // the request or file is wrong; the message names field, value, remedy
  kNotFound = 2,            // unknown model, route, file, lease
  kTooLarge = 3,            // a bound on size was exceeded (HTTP body)
  kContextLength = 4,       // prompt longer than max-model-len
  kOverloaded = 5,          // a bounded queue is full: try later
  kUnavailable = 6,         // no worker, or the peer is gone before it produced anything
  kDeadlineExceeded = 7,    // the request's own deadline passed
  kCancelled = 8,           // the caller went away
  kConnectionLost = 9,      // the peer died or the connection broke
  kStale = 10,              // the lease or block generation asked for is no longer valid
  kIncompatible = 11,       // digest, layout, dtype, block size differ between two peers
  kCorrupt = 12,            // damaged bytes: file, frame, blob
  kUnsupported = 13,        // well formed, but this build or model cannot do it
  kResourceExhausted = 14,  // memory, descriptors, disk
  kInternal = 15,           // a bug of ours
};

struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string param;  // the request field or flag at fault, if one is
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// Err(Code::kNotFound, "model '{}' is not served", name)
template <class... Args>
[[nodiscard]] std::unexpected<Error> Err(Code code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

// The same, naming the request field or flag at fault.
template <class... Args>
[[nodiscard]] std::unexpected<Error> FieldErr(std::string_view param,
                                              fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{Code::kInvalidArgument,
                               fmt::format(format, std::forward<Args>(args)...),
                               std::string(param)});
}

std::string_view CodeName(Code code);

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// TRY(expr): leave the function with the error of a Status or Result. In coroutines: CO_TRY.
#define TRY(expr)                                            \
  do {                                                       \
    if (auto try_status = (expr); !try_status) [[unlikely]]  \
      return std::unexpected(std::move(try_status).error()); \
  } while (false)
#define CO_TRY(expr)                                            \
  do {                                                          \
    if (auto try_status = (expr); !try_status) [[unlikely]]     \
      co_return std::unexpected(std::move(try_status).error()); \
  } while (false)

// TRY_ASSIGN(auto x, expr): x = value of the Result, or leave with its error.
#define TRY_ASSIGN(lhs, expr) \
  TRY_ASSIGN_IMPL(TANDEM_CONCAT(try_result_, __LINE__), lhs, expr, return)
#define CO_TRY_ASSIGN(lhs, expr) \
  TRY_ASSIGN_IMPL(TANDEM_CONCAT(try_result_, __LINE__), lhs, expr, co_return)
#define TRY_ASSIGN_IMPL(result, lhs, expr, leave)     \
  auto result = (expr);                               \
  if (!result) [[unlikely]]                           \
    leave std::unexpected(std::move(result).error()); \
  lhs = *std::move(result)

}  // namespace tandem

#endif  // TANDEM_BASE_RESULT_H_

// Logging: one line on stderr per call, "2026-11-30T13:00:00.123Z  INFO worker: message".
// Level from TANDEM_LOG or DYN_LOG (trace, debug, info, warn, error, off), read once at start.
// Thread-safe: a line is one write(2). Not for hot paths.
#ifndef TANDEM_BASE_LOG_H_
#define TANDEM_BASE_LOG_H_

#include <fmt/format.h>

#include <atomic>
#include <string_view>

namespace tandem {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

LogLevel CurrentLogLevel();
void SetLogLevel(LogLevel level);
// Shown in each line, e.g. "prefill-1". Set once, before other threads start.
void SetLogName(std::string_view name);
void LogLine(LogLevel level, std::string_view text);

#define TANDEM_LOG_AT(level, ...)                           \
  do {                                                      \
    if ((level) >= ::tandem::CurrentLogLevel())             \
      ::tandem::LogLine((level), fmt::format(__VA_ARGS__)); \
  } while (false)
#define LOG_DEBUG(...) TANDEM_LOG_AT(::tandem::LogLevel::kDebug, __VA_ARGS__)
#define LOG_INFO(...) TANDEM_LOG_AT(::tandem::LogLevel::kInfo, __VA_ARGS__)
#define LOG_WARN(...) TANDEM_LOG_AT(::tandem::LogLevel::kWarn, __VA_ARGS__)
#define LOG_ERROR(...) TANDEM_LOG_AT(::tandem::LogLevel::kError, __VA_ARGS__)

// Says a thing once per process however often the line is reached (fallbacks, remedies).
#define LOG_WARN_ONCE(...)                                \
  do {                                                    \
    static std::atomic_flag said_once = ATOMIC_FLAG_INIT; \
    if (!said_once.test_and_set()) LOG_WARN(__VA_ARGS__); \
  } while (false)

}  // namespace tandem

#endif  // TANDEM_BASE_LOG_H_

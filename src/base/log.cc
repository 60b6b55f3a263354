#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

namespace tandem {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"TRACE", "DEBUG", " INFO", " WARN", "ERROR"};

LogLevel LevelFromEnvironment() {
  for (const char* name : {"TANDEM_LOG", "DYN_LOG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view v = value;
    if (v == "trace") return LogLevel::kTrace;
    if (v == "debug") return LogLevel::kDebug;
    if (v == "warn" || v == "warning") return LogLevel::kWarn;
    if (v == "error") return LogLevel::kError;
    if (v == "off") return LogLevel::kOff;
    if (v == "info") return LogLevel::kInfo;
    if (v.empty()) continue;
    LogLine(LogLevel::kWarn,
            fmt::format("{}='{}' is no log level, so it is 'info': write trace, debug, info, warn, "
                        "error or off",
                        name, v));
  }
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& Level() {
  static std::atomic<LogLevel> level = LevelFromEnvironment();
  return level;
}

std::string& Name() {
  static std::string name;
  return name;
}

}  // namespace

LogLevel CurrentLogLevel() { return Level().load(std::memory_order_relaxed); }
void SetLogLevel(LogLevel level) { Level().store(level, std::memory_order_relaxed); }
void SetLogName(std::string_view name) { Name() = name; }

void LogLine(LogLevel level, std::string_view text) {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto millis = now.time_since_epoch().count();
  const std::string line =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} {}{}{}\n",
                  fmt::gmtime(static_cast<std::time_t>(millis / 1000)), millis % 1000,
                  kNames[static_cast<size_t>(level)], Name(), Name().empty() ? "" : ": ", text);
  // A failed write to stderr has nowhere to be reported.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tandem

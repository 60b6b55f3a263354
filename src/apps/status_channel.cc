#include "apps/status_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace tandem::apps {

StatusWriter::StatusWriter(int fd) : fd_(fd) {
  if (fd_ >= 0) {
    fcntl(fd_, F_SETFD, FD_CLOEXEC);
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
}

StatusWriter::~StatusWriter() {
  if (fd_ >= 0) close(fd_);
}

void StatusWriter::Load(double fraction) {
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  if (last_percent_.exchange(percent) != percent)
    Line(fmt::format("load {:.2f}\n", percent / 100.0));
}

void StatusWriter::Ready(std::string_view address) { Line(fmt::format("ready {}\n", address)); }

void StatusWriter::Alive() { Line("alive\n"); }

void StatusWriter::Line(std::string_view text) {
  if (fd_ < 0) return;
  // Shorter than PIPE_BUF, so it is written whole or, with a full pipe, not at all.
  [[maybe_unused]] const ssize_t n = write(fd_, text.data(), text.size());
}

std::optional<StatusLine> ParseStatusLine(std::string_view line) {
  constexpr std::string_view kLoad = "load ";
  constexpr std::string_view kReady = "ready ";
  StatusLine status;
  if (line == "alive") {
    status.alive = true;
    return status;
  }
  if (line.starts_with(kReady)) {
    status.ready = true;
    status.fraction = 1;
    status.address = line.substr(kReady.size());
    return status;
  }
  if (!line.starts_with(kLoad)) return {};
  line.remove_prefix(kLoad.size());
  const auto [end, error] =
      std::from_chars(line.data(), line.data() + line.size(), status.fraction);
  if (error != std::errc() || status.fraction < 0 || status.fraction > 1) return {};
  return status;
}

}  // namespace tandem::apps

// How a child tells its supervisor where it stands: lines on an inherited pipe. "load 0.42" while
// the model loads, then "ready ADDRESS", then "alive" every 2 s, by which a child that hangs is
// told from one that works. Writing never blocks and never fails the child.
#ifndef TANDEM_APPS_STATUS_CHANNEL_H_
#define TANDEM_APPS_STATUS_CHANNEL_H_

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tandem::apps {

// How often a child that is ready says that it is alive.
inline constexpr Duration kAliveEvery = std::chrono::seconds(2);

// Any thread.
class StatusWriter {
 public:
  explicit StatusWriter(int fd);  // below 0: writes nothing
  ~StatusWriter();
  StatusWriter(const StatusWriter&) = delete;
  StatusWriter& operator=(const StatusWriter&) = delete;

  void Load(double fraction);
  void Ready(std::string_view address);
  void Alive();

 private:
  void Line(std::string_view text);
  int fd_;
  std::atomic<int> last_percent_{-1};
};

struct StatusLine {
  bool ready = false;
  bool alive = false;  // nothing else has changed
  double fraction = 0;
  std::string address;
};
// Nothing if it is no such line.
std::optional<StatusLine> ParseStatusLine(std::string_view line);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_STATUS_CHANNEL_H_

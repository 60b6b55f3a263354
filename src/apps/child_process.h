// A child that runs this same program: started, watched, signalled, and never left behind.
#ifndef TANDEM_APPS_CHILD_PROCESS_H_
#define TANDEM_APPS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::apps {

struct ChildSpec {
  std::vector<std::string> arguments;                          // after the program's name
  std::vector<std::pair<std::string, std::string>> variables;  // set over the inherited ones
};

// The read end of a pipe, read in lines without ever blocking.
class LinePipe {
 public:
  explicit LinePipe(int fd) : fd_(fd) {}
  ~LinePipe();
  LinePipe(const LinePipe&) = delete;
  LinePipe& operator=(const LinePipe&) = delete;
  // The lines that are complete by now. After the writer has ended also an unfinished last one.
  std::vector<std::string> Read();

 private:
  int fd_;
  std::string partial_;
};

// The child has a process group of its own (Ctrl-C in the terminal reaches the supervisor alone)
// and is killed by the kernel when the thread that started it ends. Destroying this kills it too.
class ChildProcess {
 public:
  static Result<std::unique_ptr<ChildProcess>> Start(const ChildSpec& spec);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // What waitpid says, once the child has ended.
  std::optional<int> ExitStatus();
  void Signal(int signal);
  pid_t pid() const { return pid_; }
  LinePipe& status() { return status_; }  // lines of the status channel
  LinePipe& log() { return log_; }        // its stderr

 private:
  ChildProcess(pid_t pid, int status_fd, int log_fd)
      : pid_(pid), status_(status_fd), log_(log_fd) {}
  pid_t pid_;
  std::optional<int> exit_status_;
  LinePipe status_;
  LinePipe log_;
};

// "exit code 1" or "signal 9 (Killed)".
std::string DescribeExit(int wait_status);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_CHILD_PROCESS_H_

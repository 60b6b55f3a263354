#include "apps/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace tandem::apps {
namespace {

constexpr int kStatusFd = 3;
constexpr size_t kMaxPartialLine = 64 * 1024;

// Everything that exec needs, made before fork: between the two only async-signal-safe calls are
// allowed, since other threads of the parent may hold locks.
struct ExecImage {
  std::vector<std::string> words;
  std::vector<std::string> variables;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

ExecImage MakeImage(const ChildSpec& spec) {
  ExecImage image;
  image.words.push_back("tandem");
  image.words.insert(image.words.end(), spec.arguments.begin(), spec.arguments.end());
  auto overridden = [&](std::string_view entry) {
    for (const auto& [name, value] : spec.variables)
      if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return true;
    return false;
  };
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!overridden(*entry)) image.variables.emplace_back(*entry);
  for (const auto& [name, value] : spec.variables) image.variables.push_back(name + "=" + value);
  for (std::string& word : image.words) image.argv.push_back(word.data());
  for (std::string& variable : image.variables) image.envp.push_back(variable.data());
  image.argv.push_back(nullptr);
  image.envp.push_back(nullptr);
  return image;
}

[[noreturn]] void RunChild(const ExecImage& image, pid_t parent, int status_fd, int log_fd) {
  setpgid(0, 0);
  // SIGKILL: a child that hangs must not outlive its supervisor either.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above took effect
  // The parent's handlers write to the parent's pipes, which the child still shares: a signal that
  // comes before exec has to end this child, not to be heard by the parent.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDWR);
  // The status pipe may already sit at a low number that the copies below would overwrite.
  const int status_copy = fcntl(status_fd, F_DUPFD, 16);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  dup2(status_copy, kStatusFd);
  close(status_copy);
  execve("/proc/self/exe", image.argv.data(), image.envp.data());
  _exit(127);
}

}  // namespace

LinePipe::~LinePipe() { close(fd_); }

std::vector<std::string> LinePipe::Read() {
  std::vector<std::string> lines;
  std::array<char, 4096> buffer;
  bool ended = false;
  while (true) {
    const ssize_t n = read(fd_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    ended = n == 0;
    if (n <= 0) break;
    partial_.append(buffer.data(), static_cast<size_t>(n));
    size_t start = 0;
    for (size_t end = partial_.find('\n'); end != std::string::npos;
         end = partial_.find('\n', start)) {
      lines.push_back(partial_.substr(start, end - start));
      start = end + 1;
    }
    partial_.erase(0, start);
    if (partial_.size() > kMaxPartialLine) lines.push_back(std::exchange(partial_, {}));
  }
  if (ended && !partial_.empty()) lines.push_back(std::exchange(partial_, {}));
  return lines;
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildSpec& spec) {
  const ExecImage image = MakeImage(spec);
  std::array<int, 2> status = {-1, -1};
  std::array<int, 2> log = {-1, -1};
  if (pipe2(status.data(), O_CLOEXEC) != 0)
    return Err(Code::kResourceExhausted, "cannot make a pipe: {}", std::strerror(errno));
  if (pipe2(log.data(), O_CLOEXEC) != 0) {
    close(status[0]);
    close(status[1]);
    return Err(Code::kResourceExhausted, "cannot make a pipe: {}", std::strerror(errno));
  }
  const pid_t parent = getpid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunChild(image, parent, status[1], log[1]);
  const int fork_errno = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(status[1]);
  close(log[1]);
  fcntl(status[0], F_SETFL, O_NONBLOCK);
  fcntl(log[0], F_SETFL, O_NONBLOCK);
  if (pid < 0) {
    close(status[0]);
    close(log[0]);
    return Err(Code::kResourceExhausted, "cannot start a process: {}", std::strerror(fork_errno));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, status[0], log[0]));
}

ChildProcess::~ChildProcess() {
  if (ExitStatus()) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> ChildProcess::ExitStatus() {
  int status = 0;
  if (!exit_status_ && waitpid(pid_, &status, WNOHANG) == pid_) exit_status_ = status;
  return exit_status_;
}

void ChildProcess::Signal(int signal) {
  if (!exit_status_) kill(pid_, signal);
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace tandem::apps

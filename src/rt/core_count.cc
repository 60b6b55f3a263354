// AllowedCpus and AvailableCores: what the kernel and the container let this process use.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include "rt/core_board.h"

namespace tandem::rt {
namespace {

// Cores of a quota file of either cgroup version; nullopt if there is no limit.
std::optional<double> QuotaAt(const std::string& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream v2(folder + "/cpu.max"); v2 >> quota >> period) {
    if (quota == "max") return std::nullopt;
  } else {
    std::ifstream v1_quota(folder + "/cpu.cfs_quota_us");
    std::ifstream v1_period(folder + "/cpu.cfs_period_us");
    if (!(v1_quota >> quota) || !(v1_period >> period)) return std::nullopt;
  }
  double value = 0;
  if (!(std::istringstream(quota) >> value) || value <= 0 || period <= 0) return std::nullopt;
  return value / period;
}

// The smallest quota from the process's own cgroup up to the root.
double CgroupCores() {
  double least = HUGE_VAL;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("cpu") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    std::string path = line.substr(second + 1);
    for (;;) {
      if (path == "/") path.clear();
      if (const auto cores = QuotaAt(root + path)) least = std::min(least, *cores);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

}  // namespace

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int AvailableCores() {
  const auto allowed = static_cast<double>(AllowedCpus().size());
  // A fraction of a core would only be throttled half way through a step.
  return std::max(1, static_cast<int>(std::min(allowed, std::floor(CgroupCores()))));
}

}  // namespace tandem::rt

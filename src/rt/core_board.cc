#include "rt/core_board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace tandem::rt {
namespace {

constexpr int kSeats = 64;
constexpr int kMaxCpus = 1024;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kInterestAfterStep = kSecond / 50;  // 20 ms
constexpr uint64_t kStaleClaim = 2 * kSecond;          // a claim older than this may be overridden
constexpr uint64_t kLivenessPeriod = kSecond / 20;     // dead neighbours are noticed within 50 ms
constexpr uint64_t kParkAtMost = kSecond / 200;        // a lost wake-up costs 5 ms

using CpuMask = std::array<std::atomic<uint64_t>, kMaxCpus / 64>;

// The file. All zeros is the valid empty board, so creating it needs no protocol. Times are
// CLOCK_MONOTONIC in nanoseconds, which all processes of a host share.
struct Board {
  std::atomic<uint64_t> last_ticket;
  std::atomic<uint32_t> releases;  // futex: grows whenever waiters should look again
  uint32_t unused;
  std::array<std::atomic<uint64_t>, kSeats> interested_until;
  std::array<std::atomic<uint64_t>, kSeats> ticket;  // 0: not waiting
  // 0: free. Else the owner's seat and since when: ClaimWord. Void if the owner is dead.
  std::array<std::atomic<uint64_t>, kMaxCpus> claims;
  std::array<CpuMask, kSeats> cpus;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// One byte per seat, beyond the file's content, is locked by the worker that has the seat.
constexpr off_t kSeatLocks = 1 << 20;

constexpr int kTimeBits = 56;  // of nanoseconds: over two years of uptime

uint64_t ClaimWord(int seat, uint64_t now) {
  return (static_cast<uint64_t>(seat + 1) << kTimeBits) | (now & ((uint64_t{1} << kTimeBits) - 1));
}
int OwnerOf(uint64_t claim) { return static_cast<int>(claim >> kTimeBits) - 1; }
uint64_t SinceOf(uint64_t claim) { return claim & ((uint64_t{1} << kTimeBits) - 1); }

uint64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

struct flock LockOf(short type, off_t start, off_t length) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

bool TryLock(int fd, off_t start, off_t length) {
  struct flock lock = LockOf(F_WRLCK, start, length);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// Whether another open file holds the byte. The kernel drops a dead owner's locks.
bool LockedByAnother(int fd, off_t at) {
  struct flock lock = LockOf(F_WRLCK, at, 1);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, uint64_t nanos) {
  const timespec timeout{static_cast<time_t>(nanos / kSecond), static_cast<long>(nanos % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, kMaxCpus, nullptr, nullptr, 0);
}

}  // namespace

struct CoreBoard::Impl {
  ~Impl();
  Status Map(const std::string& path);
  Status TakeSeat();
  bool Meets(int other) const;
  bool SeatAlive(int other) const {
    return other == seat || LockedByAnother(fd, kSeatLocks + other);
  }
  void ForgetDeadNeighbours(uint64_t now);
  int Share(uint64_t now, int* interested);
  bool SomebodyBefore(uint64_t my_ticket);
  int TryClaim(int want, bool insist);
  // Whether a CPU's claim may be taken over: its owner is dead, or has held it for too long.
  bool Void(uint64_t claim, uint64_t now);
  int WaitForTurn(int max_threads);
  void Release();
  void WakeWaiters();

  int fd = -1;
  Board* board = nullptr;
  int seat = -1;
  int machine_cores = 1;       // what the interested workers divide
  int cores = 1;               // what this one can use of them
  std::vector<int> cpus;       // the order of claiming: those held last come first
  std::vector<uint64_t> held;  // the claims on the first so many of them
  uint64_t next_liveness_check = 0;
  CoreBoardStats stats;
};

CoreBoard::CoreBoard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CoreBoard::~CoreBoard() = default;

CoreBoard::Impl::~Impl() {
  if (board != nullptr) {
    if (seat >= 0) {
      Release();
      board->interested_until[static_cast<size_t>(seat)] = 0;
      board->ticket[static_cast<size_t>(seat)] = 0;
    }
    munmap(board, sizeof(Board));
  }
  if (fd >= 0) close(fd);  // and with it all locks
}

Status CoreBoard::Impl::Map(const std::string& path) {
  fd = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Err(Code::kUnavailable, "cannot open the core board {}: {}; give --cpu-share instead",
               path, std::strerror(errno));
  }
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 0077) != 0) {
    return Err(Code::kUnavailable,
               "the core board {} must be a file of this user with mode 0600; remove it", path);
  }
  // Growing only, so that it does not matter who comes first.
  if (info.st_size < static_cast<off_t>(sizeof(Board)) && ftruncate(fd, sizeof(Board)) != 0) {
    return Err(Code::kUnavailable, "cannot size the core board {}: {}", path, std::strerror(errno));
  }
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return Err(Code::kUnavailable, "cannot map the core board {}: {}", path, std::strerror(errno));
  }
  board = static_cast<Board*>(memory);
  return Status();
}

Status CoreBoard::Impl::TakeSeat() {
  for (int i = 0; i < kSeats; ++i) {
    if (!TryLock(fd, kSeatLocks + i, 1)) continue;
    seat = i;
    const auto index = static_cast<size_t>(i);
    board->interested_until[index] = 0;
    board->ticket[index] = 0;
    // What the seat's last owner claimed when it died must not look like ours.
    for (auto& claim : board->claims) {
      uint64_t current = claim.load();
      if (current != 0 && OwnerOf(current) == i) claim.compare_exchange_strong(current, 0);
    }
    CpuMask& mask = board->cpus[index];
    for (auto& word : mask) word = 0;
    for (const int cpu : cpus) mask[static_cast<size_t>(cpu / 64)] |= uint64_t{1} << (cpu % 64);
    // Seats start at different CPUs, so that first claims seldom meet.
    std::rotate(cpus.begin(), cpus.begin() + i % static_cast<int>(cpus.size()), cpus.end());
    return Status();
  }
  return Err(Code::kResourceExhausted, "all {} seats of the core board are taken", kSeats);
}

Result<std::unique_ptr<CoreBoard>> CoreBoard::Open(const CoreBoardOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->cpus = options.cpus.empty() ? AllowedCpus() : options.cpus;
  std::erase_if(impl->cpus, [](int cpu) { return cpu < 0 || cpu >= kMaxCpus; });
  if (impl->cpus.empty())
    return Err(Code::kInvalidArgument, "the core board needs CPUs in 0..{}", kMaxCpus - 1);
  impl->machine_cores =
      options.cpus.empty() ? AvailableCores() : static_cast<int>(impl->cpus.size());
  impl->cores = options.max_cores > 0 ? std::min(options.max_cores, impl->machine_cores)
                                      : impl->machine_cores;
  // The layout's version is part of the name: boards of different layouts do not meet.
  TRY(impl->Map(fmt::format("{}/tandem-cores-1-{}", options.directory, geteuid())));
  TRY(impl->TakeSeat());
  return std::unique_ptr<CoreBoard>(new CoreBoard(std::move(impl)));
}

bool CoreBoard::Impl::Meets(int other) const {
  const CpuMask& mine = board->cpus[static_cast<size_t>(seat)];
  const CpuMask& theirs = board->cpus[static_cast<size_t>(other)];
  for (size_t i = 0; i < mine.size(); ++i)
    if ((mine[i].load(std::memory_order_relaxed) & theirs[i].load(std::memory_order_relaxed)) != 0)
      return true;
  return false;
}

void CoreBoard::Impl::ForgetDeadNeighbours(uint64_t now) {
  if (now < next_liveness_check) return;
  next_liveness_check = now + kLivenessPeriod;
  for (int i = 0; i < kSeats; ++i) {
    auto& until = board->interested_until[static_cast<size_t>(i)];
    if (until.load() > now && !SeatAlive(i)) until = 0;
  }
}

// This worker's part of the cores: equal parts, what is left over to the lowest seats; at least 1.
int CoreBoard::Impl::Share(uint64_t now, int* interested) {
  int workers = 1;
  int rank = 0;
  for (int i = 0; i < kSeats; ++i) {
    if (i == seat || board->interested_until[static_cast<size_t>(i)].load() <= now || !Meets(i))
      continue;
    ++workers;
    if (i < seat) ++rank;
  }
  if (interested != nullptr) *interested = workers;
  if (workers > 1) ForgetDeadNeighbours(now);
  const int share = machine_cores / workers + (rank < machine_cores % workers ? 1 : 0);
  return std::clamp(share, 1, cores);
}

// Whether a live worker waits with a lower ticket for cores that we would take.
bool CoreBoard::Impl::SomebodyBefore(uint64_t my_ticket) {
  for (int i = 0; i < kSeats; ++i) {
    auto& slot = board->ticket[static_cast<size_t>(i)];
    uint64_t ticket = slot.load();
    if (i == seat || ticket == 0 || ticket >= my_ticket || !Meets(i)) continue;
    if (SeatAlive(i)) return true;
    slot.compare_exchange_strong(ticket, 0);
  }
  return false;
}

bool CoreBoard::Impl::Void(uint64_t claim, uint64_t now) {
  const int owner = OwnerOf(claim);
  if (owner >= kSeats || (owner != seat && !SeatAlive(owner))) return true;
  if (SinceOf(claim) + kStaleClaim >= now) return false;
  ++stats.overrides;
  LOG_WARN_ONCE("another worker has held a core for over 2 s; taking it over");
  return true;
}

// Free CPUs first; with `insist`, also those whose claim is void (that costs system calls).
int CoreBoard::Impl::TryClaim(int want, bool insist) {
  const uint64_t now = NowNanos();
  const uint64_t mine = ClaimWord(seat, now);
  held.clear();
  for (size_t i = 0; i < cpus.size() && std::ssize(held) < want; ++i) {
    auto& claim = board->claims[static_cast<size_t>(cpus[i])];
    uint64_t current = claim.load();
    if (current != 0 && (!insist || !Void(current, now))) continue;
    if (!claim.compare_exchange_strong(current, mine)) continue;
    std::swap(cpus[i], cpus[held.size()]);
    held.push_back(mine);
  }
  return static_cast<int>(held.size());
}

void CoreBoard::Impl::WakeWaiters() {
  board->releases.fetch_add(1);
  for (int i = 0; i < kSeats; ++i) {
    if (i != seat && board->ticket[static_cast<size_t>(i)].load() != 0) {
      FutexWakeAll(board->releases);
      return;
    }
  }
}

int CoreBoard::Impl::WaitForTurn(int max_threads) {
  ++stats.waits;
  auto& my_ticket = board->ticket[static_cast<size_t>(seat)];
  const uint64_t ticket = board->last_ticket.fetch_add(1) + 1;
  my_ticket = ticket;
  int got = 0;
  for (;;) {
    const uint32_t seen = board->releases.load();
    const uint64_t now = NowNanos();
    board->interested_until[static_cast<size_t>(seat)] = now + kStaleClaim;
    const int want = std::min(max_threads, Share(now, nullptr));
    if (!SomebodyBefore(ticket)) got = TryClaim(want, true);
    if (got > 0) break;
    FutexWait(board->releases, seen, kParkAtMost);
  }
  my_ticket = 0;
  WakeWaiters();
  return got;
}

int CoreBoard::Acquire(int max_threads) {
  const uint64_t now = NowNanos();
  impl_->board->interested_until[static_cast<size_t>(impl_->seat)] = now + kStaleClaim;
  if (!impl_->SomebodyBefore(UINT64_MAX)) {
    const int got = impl_->TryClaim(std::min(max_threads, impl_->Share(now, nullptr)), false);
    if (got > 0) return got;
  }
  return impl_->WaitForTurn(max_threads);
}

void CoreBoard::Release() { impl_->Release(); }

void CoreBoard::Impl::Release() {
  for (size_t i = 0; i < held.size(); ++i) {
    // Unless it was taken over in the meantime.
    board->claims[static_cast<size_t>(cpus[i])].compare_exchange_strong(held[i], 0);
  }
  held.clear();
  board->interested_until[static_cast<size_t>(seat)] = NowNanos() + kInterestAfterStep;
  WakeWaiters();
}

int CoreBoard::Interested() {
  int workers = 1;
  const uint64_t now = NowNanos();
  impl_->Share(now, &workers);
  const bool mine = impl_->board->interested_until[static_cast<size_t>(impl_->seat)].load() > now;
  return mine ? workers : workers - 1;
}

int CoreBoard::cores() const { return impl_->cores; }
const CoreBoardStats& CoreBoard::stats() const { return impl_->stats; }

}  // namespace tandem::rt

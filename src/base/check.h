// CHECK: always on, for programmer errors only. Input from a peer or a user is never CHECKed.
#ifndef TANDEM_BASE_CHECK_H_
#define TANDEM_BASE_CHECK_H_

namespace tandem {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace tandem

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::tandem::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(0)
#else
#define DCHECK(condition) CHECK(condition)
#endif

#endif  // TANDEM_BASE_CHECK_H_

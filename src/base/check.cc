#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tandem: internal error: %s is false at %s:%d. Please report this.\n",
               condition, file, line);
  std::abort();
}

}  // namespace tandem

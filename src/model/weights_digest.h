// The identity of a weight file.
#ifndef TANDEM_MODEL_WEIGHTS_DIGEST_H_
#define TANDEM_MODEL_WEIGHTS_DIGEST_H_

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace tandem::model {

// SHA-256 of the whole file in lower-case hex. Reading a large file takes seconds, so the result is
// kept in `cache_dir` (empty: not kept) under the file's path, size, time of modification, device
// and inode: a file changed in place without any of them changing would keep its old digest.
// `file` are the bytes of the file at `path`.
Result<std::string> WeightsDigestOf(std::span<const std::byte> file, const std::string& path,
                                    const std::string& cache_dir);

}  // namespace tandem::model

#endif  // TANDEM_MODEL_WEIGHTS_DIGEST_H_

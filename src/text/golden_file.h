// Length-prefixed golden files, as tests/tools/prepare_tokenizers.py writes them. Tests only.
#ifndef TANDEM_TEXT_GOLDEN_FILE_H_
#define TANDEM_TEXT_GOLDEN_FILE_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"

namespace tandem::text {

inline std::string TestCacheFile(const std::string& name) {
  if (const char* cache = std::getenv("TANDEM_TEST_CACHE"); cache != nullptr && *cache != 0) {
    return std::string(cache) + "/text/" + name;
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/tandem/text/" + name;
}

// Empty where the file cannot be read.
inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A cut file is a broken test setup, so reading past its end stops the test.
class GoldenReader {
 public:
  explicit GoldenReader(const std::string& bytes) : bytes_(bytes) {}

  uint32_t U32() {
    uint32_t value = 0;
    CHECK(at_ + 4 <= bytes_.size());
    std::memcpy(&value, bytes_.data() + at_, 4);
    at_ += 4;
    return value;
  }
  std::string Text() {
    const uint32_t size = U32();
    CHECK(at_ + size <= bytes_.size());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::vector<int32_t> Ids() {
    std::vector<int32_t> ids(U32());
    for (int32_t& id : ids) id = static_cast<int32_t>(U32());
    return ids;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_GOLDEN_FILE_H_

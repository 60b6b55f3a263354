// Test support: recorded values as text. A file holds cases, separated by empty lines; each line of
// a case is a key and values separated by spaces. Lines that start with '#' are comments.
#ifndef TANDEM_MODEL_GOLDEN_FILE_H_
#define TANDEM_MODEL_GOLDEN_FILE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/source_dir.h"

namespace tandem::model {

class GoldenCase {
 public:
  std::map<std::string, std::vector<std::string>> lines;

  bool Has(const std::string& key) const { return lines.contains(key); }

  std::string Word(const std::string& key, const std::string& fallback = "") const {
    const auto found = lines.find(key);
    return found == lines.end() || found->second.empty() ? fallback : found->second[0];
  }

  double Number(const std::string& key, double fallback = 0.0) const {
    const std::string word = Word(key);
    return word.empty() ? fallback : std::strtod(word.c_str(), nullptr);
  }

  template <class T>
  std::vector<T> Numbers(const std::string& key) const {
    std::vector<T> numbers;
    const auto found = lines.find(key);
    if (found == lines.end()) return numbers;
    for (const std::string& word : found->second)
      numbers.push_back(static_cast<T>(std::strtod(word.c_str(), nullptr)));
    return numbers;
  }
};

// A missing file fails the test and gives no cases.
inline std::vector<GoldenCase> ReadGoldenFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << "cannot read " << path;
  std::vector<GoldenCase> cases;
  bool open = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) open = false;
    if (line.empty() || line[0] == '#') continue;
    if (!open) cases.emplace_back();
    open = true;
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::vector<std::string>& values = cases.back().lines[key];
    for (std::string word; words >> word;) values.push_back(word);
  }
  return cases;
}

// `name` is relative to tests/goldens.
inline std::vector<GoldenCase> ReadGoldens(const std::string& name) {
  return ReadGoldenFile(std::string(kSourceDir) + "/tests/goldens/" + name);
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_GOLDEN_FILE_H_

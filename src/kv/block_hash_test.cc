#include "kv/block_hash.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "base/source_dir.h"

namespace tandem::kv {
namespace {

std::vector<TokenId> ParseTokens(const std::string& text) {
  std::vector<TokenId> tokens;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) tokens.push_back(std::stoi(item));
  return tokens;
}

std::string FromHex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

TEST(BlockHashTest, EqualsTheRecordedVectors) {
  std::ifstream file(std::string(kSourceDir) + "/tests/goldens/kv/block_hashes.txt");
  ASSERT_TRUE(file.good());
  std::unordered_map<std::string, BlockHash> by_hex;
  BlockHash root{};
  int roots = 0;
  int blocks = 0;
  for (std::string line; std::getline(file, line);) {
    std::stringstream fields(line);
    std::string kind;
    fields >> kind;
    if (kind == "root") {
      std::string seed, digest;
      fields >> seed >> digest;
      root = seed == "-" ? RootHash() : RootHash(seed);
      EXPECT_EQ(Hex(root), digest);
      ++roots;
    } else if (kind == "block") {
      std::string parent, salt, tokens, digest, event;
      fields >> parent >> salt >> tokens >> digest >> event;
      const BlockHash hash = HashBlock(parent == "root" ? root : by_hex.at(parent),
                                       ParseTokens(tokens), salt == "-" ? "" : FromHex(salt));
      EXPECT_EQ(Hex(hash), digest) << line;
      EXPECT_EQ(std::to_string(EventHash(hash)), event) << line;
      by_hex[digest] = hash;
      ++blocks;
    }
  }
  EXPECT_EQ(roots, 3);
  EXPECT_EQ(blocks, 27);
}

TEST(SequenceHasherTest, PiecesGiveTheHashesOfTheWhole) {
  std::vector<TokenId> tokens(533);
  std::iota(tokens.begin(), tokens.end(), 70000);
  const BlockHash root = RootHash();
  std::mt19937 random(7);
  for (const int block_tokens : {1, 16, 128}) {
    const auto size = static_cast<size_t>(block_tokens);
    std::vector<BlockHash> expected;
    BlockHash parent = root;
    for (size_t at = 0; at + size <= tokens.size(); at += size) {
      parent = HashBlock(parent, std::span(tokens).subspan(at, size), at == 0 ? "pepper" : "");
      expected.push_back(parent);
    }
    SequenceHasher hasher(root, block_tokens, "pepper");
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min<size_t>(random() % 40, tokens.size() - at);
      hasher.Append(std::span(tokens).subspan(at, n));
      at += n;
    }
    EXPECT_EQ(std::vector(hasher.hashes().begin(), hasher.hashes().end()), expected);
    EXPECT_EQ(hasher.tokens(), 533);
  }
}

TEST(SequenceHasherTest, SaltSeparatesWholeChains) {
  const std::vector<TokenId> tokens(64, 5);
  SequenceHasher plain(RootHash(), 16), salted(RootHash(), 16, "a");
  plain.Append(tokens);
  salted.Append(tokens);
  for (size_t i = 0; i < 4; ++i) EXPECT_NE(plain.hashes()[i], salted.hashes()[i]);
}

TEST(SequenceHasherTest, LongPromptIsWellUnderAMillisecond) {
  std::vector<TokenId> tokens(2000);
  std::iota(tokens.begin(), tokens.end(), 1000);
  const BlockHash root = RootHash();
  auto best = std::chrono::steady_clock::duration::max();
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    SequenceHasher hasher(root, 16);
    hasher.Append(tokens);
    best = std::min(best, std::chrono::steady_clock::now() - start);
    ASSERT_EQ(hasher.hashes().size(), 125u);
  }
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(best).count();
  RecordProperty("best_us", static_cast<int>(us));
  std::printf("2,000 tokens hashed in %ld us\n", static_cast<long>(us));
  EXPECT_LT(us, 20000) << "far beyond even a sanitizer build";
}

}  // namespace
}  // namespace tandem::kv

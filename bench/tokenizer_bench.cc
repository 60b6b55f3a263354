// Runs a tokenizer over texts, for comparison with other libraries (bench/tokenizer_peers.py) and
// for speed.
//
//   tokenizer_bench TOKENIZER TEXTS OUT [--no-special]   ids and decoded texts of every text
//   tokenizer_bench TOKENIZER TEXTS --speed              megabytes a second of one thread
//
// TOKENIZER: a tokenizer.json, a SentencePiece model, a tekken.json, a .gguf file or a folder.
// TEXTS: u32 count, then each text as u32 size and bytes. OUT: for each text ids with and without
// added tokens, decoded with and without special tokens, streamed text; lists as u32 count and
// values, texts as above.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/gguf_tokenizer.h"
#include "model/gguf.h"
#include "model/tokenizer_metadata.h"
#include "text/detokenizer.h"
#include "text/sentencepiece.h"
#include "text/tekken.h"
#include "text/tokenizer.h"
#include "text/tokenizer_folder.h"
#include "text/tokenizer_json.h"

namespace {

using tandem::Result;
using tandem::text::Detokenizer;
using tandem::text::Tokenizer;
using tandem::text::TokenizerSpec;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<TokenizerSpec> ReadSpec(const std::string& path) {
  if (std::filesystem::is_directory(path)) return tandem::text::ReadTokenizerFolder(path);
  const std::string name = std::filesystem::path(path).filename().string();
  if (name.ends_with(".gguf")) {
    TRY_ASSIGN(const auto file, tandem::model::GgufFile::Open(path));
    TRY_ASSIGN(auto metadata, tandem::model::ReadTokenizerMetadata(file->view()));
    return tandem::engine::MakeTokenizer(std::move(metadata));
  }
  if (name.starts_with("tekken")) return tandem::text::ReadTekken(ReadFile(path));
  if (name.ends_with(".json")) return tandem::text::ReadTokenizerJson(ReadFile(path), "");
  return tandem::text::ReadSentencePiece(ReadFile(path));
}

std::vector<std::string> ReadTexts(const std::string& path) {
  const std::string bytes = ReadFile(path);
  size_t at = 0;
  const auto u32 = [&] {
    uint32_t value = 0;
    CHECK(at + 4 <= bytes.size());
    std::memcpy(&value, bytes.data() + at, 4);
    at += 4;
    return value;
  };
  std::vector<std::string> texts(u32());
  for (std::string& text : texts) {
    const uint32_t size = u32();
    CHECK(at + size <= bytes.size());
    text = bytes.substr(at, size);
    at += size;
  }
  return texts;
}

class Output {
 public:
  void Text(std::string_view text) {
    U32(text.size());
    bytes_.append(text);
  }
  void Ids(const std::vector<int32_t>& ids) {
    U32(ids.size());
    for (const int32_t id : ids) U32(static_cast<uint32_t>(id));
  }
  void Write(const char* path) {
    std::ofstream(path, std::ios::binary).write(bytes_.data(), static_cast<long>(bytes_.size()));
  }

 private:
  void U32(size_t value) {
    const auto small = static_cast<uint32_t>(value);
    bytes_.append(reinterpret_cast<const char*>(&small), 4);
  }
  std::string bytes_;
};

std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Detokenizer pieces(tokenizer, false);
  std::string joined;
  for (const int32_t id : ids) joined += pieces.Push(id);
  return joined + pieces.Flush();
}

void WriteIds(const Tokenizer& tokenizer, const std::vector<std::string>& texts, bool parse_special,
              const char* path) {
  Output out;
  for (const std::string& text : texts) {
    const auto ids = tokenizer.Encode(text, {.parse_special = parse_special});
    out.Ids(ids);
    out.Ids(tokenizer.Encode(text, {.add_special_tokens = false, .parse_special = parse_special}));
    out.Text(tokenizer.Decode(ids, false));
    out.Text(tokenizer.Decode(ids, true));
    out.Text(Streamed(tokenizer, ids));
  }
  out.Write(path);
}

void PrintSpeed(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  size_t bytes = 0;
  size_t tokens = 0;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    bytes = 0;
    tokens = 0;
    const double start = Seconds();
    for (const std::string& text : texts) {
      tokens += tokenizer.Encode(text, {.add_special_tokens = false}).size();
      bytes += text.size();
    }
    best = std::max(best, static_cast<double>(bytes) / 1e6 / (Seconds() - start));
  }
  std::printf("encode_MB_s %.2f bytes %zu tokens %zu\n", best, bytes, tokens);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER TEXTS (OUT [--no-special] | --speed)\n");
    return 2;
  }
  const double start = Seconds();
  auto spec = ReadSpec(argv[1]);
  if (!spec) {
    std::fprintf(stderr, "error: %s\n", spec.error().message.c_str());
    return 1;
  }
  const double read = Seconds();
  const auto bytes = Serialize(*spec);
  CHECK(bytes.has_value());
  const double serialized = Seconds();
  auto parsed = tandem::text::ParseTokenizerSpec(*bytes);
  CHECK(parsed.has_value());
  CHECK(*parsed == *spec);
  const double back = Seconds();
  auto tokenizer = Tokenizer::Create(*std::move(parsed));
  if (!tokenizer) {
    std::fprintf(stderr, "error: %s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::printf("read_s %.3f serialize_s %.3f (%zu bytes) parse_s %.3f create_s %.3f\n", read - start,
              serialized - read, bytes->size(), back - serialized, Seconds() - back);
  const std::vector<std::string> texts = ReadTexts(argv[2]);
  if (std::string_view(argv[3]) == "--speed") {
    PrintSpeed(**tokenizer, texts);
  } else {
    const bool parse_special = argc < 5 || std::string_view(argv[4]) != "--no-special";
    WriteIds(**tokenizer, texts, parse_special, argv[3]);
  }
  return 0;
}

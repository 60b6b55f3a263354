// Maps the messages to msgpack maps. Each struct lists its fields once, for both directions.
// Fields that hold their default are left out, so additive changes cost nothing on the wire.
#include <concepts>
#include <limits>

#include "wire/messages.h"
#include "wire/msgpack.h"

namespace tandem::wire {
namespace {

constexpr size_t kMaxNameBytes = 64;
// Where requests are usually no longer; only a first guess.
constexpr size_t kRoomForRequest = 400;
constexpr size_t kRoomForToken = 3;

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Sampling>
{
  v("temperature", m.temperature);
  v("top_p", m.top_p);
  v("top_k", m.top_k);
  v("min_p", m.min_p);
  v("repetition_penalty", m.repetition_penalty);
  v("presence_penalty", m.presence_penalty);
  v("frequency_penalty", m.frequency_penalty);
  v("seed", m.seed);
  v("logit_bias", m.logit_bias);
  v("allowed_token_ids", m.allowed_token_ids);
  v("bad_words", m.bad_words);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, GenerateRequest>
{
  v("request_id", m.request_id);
  v("model", m.model);
  v("prompt", m.prompt);
  v("sampling", m.sampling);
  v("n", m.n);
  v("max_tokens", m.max_tokens);
  v("min_tokens", m.min_tokens);
  v("stop_token_ids", m.stop_token_ids);
  v("ignore_eos", m.ignore_eos);
  v("logprobs", m.logprobs);
  v("prompt_logprobs", m.prompt_logprobs);
  v("cache_salt", m.cache_salt);
  v("priority", m.priority);
  v("kv_transfer_params", m.kv_transfer_params);
  v("trace_id", m.trace_id);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, TokenLogprob>
{
  v("token", m.token);
  v("logprob", m.logprob);
  v("rank", m.rank);
  v("top", m.top);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, GenerateItem>
{
  v("choice", m.choice);
  v("tokens", m.tokens);
  v("logprobs", m.logprobs);
  v("finish", m.finish);
  v("stop_token", m.stop_token);
  v("cached_tokens", m.cached_tokens);
  v("pulled_tokens", m.pulled_tokens);
  v("pulled_bytes", m.pulled_bytes);
  v("pull_seconds", m.pull_seconds);
  v("pull_transport", m.pull_transport);
  v("computed_prompt_tokens", m.computed_prompt_tokens);
  v("fallback_reason", m.fallback_reason);
  v("kv_transfer_params", m.kv_transfer_params);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, ArtifactRequest>
{
  v("digest", m.digest);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, ReleaseRequest>
{
  v("request_id", m.request_id);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, ModelCard>
{
  v("name", m.name);
  v("aliases", m.aliases);
  v("role", m.role);
  v("max_model_len", m.max_model_len);
  v("kv_block_size", m.kv_block_size);
  v("total_kv_blocks", m.total_kv_blocks);
  v("max_num_seqs", m.max_num_seqs);
  v("max_num_batched_tokens", m.max_num_batched_tokens);
  v("tokenizer_digest", m.tokenizer_digest);
  v("template_digest", m.template_digest);
  v("generation_config_digest", m.generation_config_digest);
  v("content_format", m.content_format);
  v("weights_digest", m.weights_digest);
  v("kv_layout_id", m.kv_layout_id);
  v("numerics_id", m.numerics_id);
  v("kv_connector", m.kv_connector);
  v("engine", m.engine);
}

template <class V>
void Visit(V& v, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Instance>
{
  v("id", m.id);
  v("ns", m.ns);
  v("component", m.component);
  v("endpoint", m.endpoint);
  v("address", m.address);
  v("system_address", m.system_address);
  v("started_unix_ms", m.started_unix_ms);
  v("card", m.card);
}

struct Ignore {
  void operator()(std::string_view, auto&) {}
};

template <class T>
concept Message = requires(Ignore ignore, T m) { Visit(ignore, m); };

// True if encoding the value may be left out.
template <class T>
bool IsDefault(const T& value, const T& preset) {
  if constexpr (requires { value.empty(); })
    return value.empty();
  else if constexpr (Message<T>)
    return false;
  else
    return value == preset;
}

class Encoder {
 public:
  explicit Encoder(Bytes& out) : writer_(out) {}

  template <Message T>
  void Write(const T& m) {
    static const T preset{};
    size_t count = 0;
    ForEach(m, preset, [&](std::string_view, const auto&) { ++count; });
    writer_.Map(count);
    ForEach(m, preset, [&](std::string_view name, const auto& field) {
      writer_.Str(name);
      Write(field);
    });
  }

 private:
  // Calls `use` for each field whose value is not the default. Fields are found in the preset by
  // their offset in the struct.
  template <class T, class Use>
  void ForEach(const T& m, const T& preset, Use use) {
    auto visit = [&]<class F>(std::string_view name, const F& field) {
      const auto offset = reinterpret_cast<const char*>(&field) - reinterpret_cast<const char*>(&m);
      const auto& other =
          *reinterpret_cast<const F*>(reinterpret_cast<const char*>(&preset) + offset);
      if (!IsDefault(field, other)) use(name, field);
    };
    Visit(visit, m);
  }

  void Write(bool v) { writer_.Bool(v); }
  void Write(int32_t v) { writer_.Int(v); }
  void Write(int64_t v) { writer_.Int(v); }
  void Write(uint64_t v) { writer_.Uint(v); }
  void Write(float v) { writer_.Float(v); }
  void Write(double v) { writer_.Double(v); }
  void Write(const std::string& v) { writer_.Str(v); }
  void Write(FinishReason v) { writer_.Int(static_cast<int64_t>(v)); }
  template <class T>
  void Write(const std::optional<T>& v) {
    Write(*v);  // an absent one is a default and left out
  }
  void Write(const std::vector<int32_t>& v) { writer_.Ints(v); }
  template <class T>
  void Write(const std::vector<T>& v) {
    writer_.Array(v.size());
    for (const T& element : v) Write(element);
  }
  template <class A, class B>
  void Write(const std::pair<A, B>& v) {
    writer_.Array(2);
    Write(v.first);
    Write(v.second);
  }
  template <class K, class T>
  void Write(const std::map<K, T>& v) {
    writer_.Map(v.size());
    for (const auto& [key, value] : v) {
      Write(key);
      Write(value);
    }
  }

  MsgpackWriter writer_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : reader_(bytes) {}

  template <Message T>
  Status Read(T& m) {
    TRY_ASSIGN(size_t count, reader_.Map());
    for (; count > 0; --count) {
      TRY_ASSIGN(const std::string_view name, reader_.Str());
      if (name.size() > kMaxNameBytes) return Err(Code::kCorrupt, "msgpack: a field name too long");
      bool found = false;
      Status status;
      auto visit = [&](std::string_view field_name, auto& field) {
        if (found || field_name != name) return;
        found = true;
        status = Read(field);
      };
      Visit(visit, m);
      if (!status) return Err(status.error().code, "{} in field {}", status.error().message, name);
      if (!found) TRY(reader_.Skip());
    }
    return {};
  }

  Status ExpectEnd() const {
    if (!reader_.AtEnd())
      return Err(Code::kCorrupt, "msgpack: bytes after the message at byte {}", reader_.position());
    return {};
  }

 private:
  template <class T>
  Status Set(T& to, Result<T> from) {
    if (!from) return std::unexpected(std::move(from).error());
    to = *from;
    return {};
  }

  Status Read(bool& v) { return Set(v, reader_.Bool()); }
  Status Read(int32_t& v) { return Set(v, reader_.Int32()); }
  Status Read(int64_t& v) { return Set(v, reader_.Int()); }
  Status Read(uint64_t& v) { return Set(v, reader_.Uint()); }
  Status Read(double& v) { return Set(v, reader_.Double()); }
  Status Read(float& v) {
    TRY_ASSIGN(const double wide, reader_.Double());
    v = static_cast<float>(wide);
    return {};
  }
  Status Read(std::string& v) {
    TRY_ASSIGN(const std::string_view text, reader_.Str());
    v.assign(text);
    return {};
  }
  Status Read(FinishReason& v) {
    TRY_ASSIGN(const int64_t number, reader_.Int());
    // A reason that a newer peer knows and we do not still ends the choice.
    const bool known = number >= 0 && number <= static_cast<int64_t>(FinishReason::kError);
    v = known ? static_cast<FinishReason>(number) : FinishReason::kError;
    return {};
  }
  template <class T>
  Status Read(std::optional<T>& v) {
    return Read(v.emplace());
  }
  template <class T>
  Status Read(std::vector<T>& v) {
    TRY_ASSIGN(const size_t count, reader_.Array());
    v.clear();
    // An element takes at least one byte, but more memory here: grow with what is really there.
    v.reserve(std::min(count, size_t{1024}));
    for (size_t i = 0; i < count; ++i) TRY(Read(v.emplace_back()));
    return {};
  }
  template <class A, class B>
  Status Read(std::pair<A, B>& v) {
    TRY_ASSIGN(const size_t count, reader_.Array());
    if (count != 2) return Err(Code::kCorrupt, "msgpack: expected a pair");
    TRY(Read(v.first));
    return Read(v.second);
  }
  template <class K, class T>
  Status Read(std::map<K, T>& v) {
    TRY_ASSIGN(size_t count, reader_.Map());
    v.clear();
    for (; count > 0; --count) {
      K key{};
      TRY(Read(key));
      TRY(Read(v[key]));
    }
    return {};
  }

  MsgpackReader reader_;
};

template <class T>
Bytes EncodeMessage(const T& m) {
  Bytes out;
  Encoder(out).Write(m);
  return out;
}

template <class T>
Result<T> DecodeMessage(std::span<const std::byte> bytes) {
  Decoder decoder(bytes);
  T m;
  TRY(decoder.Read(m));
  TRY(decoder.ExpectEnd());
  return m;
}

}  // namespace

Bytes Encode(const GenerateRequest& m) {
  Bytes out;
  out.reserve(kRoomForRequest + kRoomForToken * m.prompt.size() + m.kv_transfer_params.size());
  Encoder(out).Write(m);
  return out;
}
Bytes Encode(const GenerateItem& m) { return EncodeMessage(m); }
Bytes Encode(const ArtifactRequest& m) { return EncodeMessage(m); }
Bytes Encode(const ReleaseRequest& m) { return EncodeMessage(m); }
Bytes Encode(const Instance& m) { return EncodeMessage(m); }

Result<GenerateRequest> DecodeGenerateRequest(std::span<const std::byte> bytes) {
  return DecodeMessage<GenerateRequest>(bytes);
}
Result<GenerateItem> DecodeGenerateItem(std::span<const std::byte> bytes) {
  return DecodeMessage<GenerateItem>(bytes);
}
Result<ArtifactRequest> DecodeArtifactRequest(std::span<const std::byte> bytes) {
  return DecodeMessage<ArtifactRequest>(bytes);
}
Result<ReleaseRequest> DecodeReleaseRequest(std::span<const std::byte> bytes) {
  return DecodeMessage<ReleaseRequest>(bytes);
}
Result<Instance> DecodeInstance(std::span<const std::byte> bytes) {
  return DecodeMessage<Instance>(bytes);
}

}  // namespace tandem::wire

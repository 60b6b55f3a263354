#include "frontend/generate_fields.h"

#include <charconv>

#include "text/stop_matcher.h"

namespace tandem::frontend {
namespace {

using wire::Json;
using F = Field<GenerateParams>;

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStops = 32;
constexpr size_t kMaxBadWords = 256;
constexpr size_t kMaxBias = 1024;
constexpr size_t kMaxNameBytes = 512;
constexpr size_t kMaxSaltBytes = 128;
constexpr size_t kMaxIdBytes = 256;

Status ReadStop(const Json& value, std::string_view name, GenerateParams& to) {
  if (value.IsString()) {
    to.stop = {value.AsString()};
  } else if (value.IsArray()) {
    if (value.AsArray().size() > kMaxStops)
      return FieldErr(name, "{} has {} strings; at most {} are accepted", name,
                      value.AsArray().size(), kMaxStops);
    for (const Json& element : value.AsArray()) {
      const std::string path = fmt::format("{}[{}]", name, to.stop.size());
      TRY_ASSIGN(std::string text, ReadString(element, path, text::StopMatcher::kMaxStopBytes));
      to.stop.push_back(std::move(text));
    }
  } else {
    return WrongType(name, "a string or a list of strings", value);
  }
  for (const std::string& text : to.stop)
    if (text.empty()) return FieldErr(name, "{} must not hold an empty string", name);
  return {};
}

Status ReadLogitBias(const Json& value, std::string_view name, GenerateParams& to) {
  if (!value.IsObject()) return WrongType(name, "an object of token ids and numbers", value);
  if (value.AsObject().size() > kMaxBias)
    return FieldErr(name, "{} has {} entries; at most {} are accepted", name,
                    value.AsObject().size(), kMaxBias);
  for (const Json::Member& member : value.AsObject()) {
    TokenId id = 0;
    const char* end = member.key.data() + member.key.size();
    const auto read = std::from_chars(member.key.data(), end, id);
    if (read.ec != std::errc() || read.ptr != end || id < 0)
      return FieldErr(name, "{} has the key \"{}\"; keys must be token ids", name,
                      member.key.substr(0, 40));
    const std::string path = fmt::format("{}.{}", name, id);
    TRY_ASSIGN(to.logit_bias[id], ReadNumber(member.value, path, -100, 100));
  }
  return {};
}

Status ReadBadWords(const Json& value, std::string_view name, GenerateParams& to) {
  if (!value.IsArray()) return WrongType(name, "a list of strings", value);
  if (value.AsArray().size() > kMaxBadWords)
    return FieldErr(name, "{} has {} strings; at most {} are accepted", name,
                    value.AsArray().size(), kMaxBadWords);
  for (const Json& element : value.AsArray()) {
    const std::string path = fmt::format("{}[{}]", name, to.bad_words.size());
    TRY_ASSIGN(std::string word, ReadString(element, path, kMaxNameBytes));
    if (word.empty()) return FieldErr(path, "{} must not be empty", path);
    to.bad_words.push_back(std::move(word));
  }
  return {};
}

Status ReadAllowed(const Json& value, std::string_view name, GenerateParams& to) {
  TRY_ASSIGN(to.allowed_token_ids, ReadTokenIds(value, name));
  if (to.allowed_token_ids.empty())
    return FieldErr(name, "{} must not be empty; leave it out to allow every token", name);
  return {};
}

// The reference keeps the characters apart from those that its cache servers split keys at.
Status ReadSalt(const Json& value, std::string_view name, GenerateParams& to) {
  TRY_ASSIGN(to.cache_salt, ReadString(value, name, kMaxSaltBytes));
  if (to.cache_salt.empty())
    return FieldErr(name, "{} must not be empty; leave it out instead", name);
  if (to.cache_salt.find_first_of("/\\@") != std::string::npos)
    return FieldErr(name, "{} must not contain '/', '@' or '\\'", name);
  return {};
}

Status ReadStreamOptions(const Json& value, std::string_view name, GenerateParams& to) {
  if (!value.IsObject()) return WrongType(name, "an object", value);
  static const std::vector<F> kFields = {
      {"include_usage", F::Bool{&GenerateParams::include_usage}},
      {"continuous_usage_stats", F::Bool{&GenerateParams::continuous_usage_stats}},
      {"include_obfuscation", Informational{}},
  };
  return ReadMembers(value.AsObject(), Bound{kFields, to});
}

Status ReadExtraFields(const Json& value, std::string_view name, GenerateParams& to) {
  if (!value.IsArray()) return WrongType(name, "a list of strings", value);
  for (const Json& element : value.AsArray()) {
    if (!element.IsString()) return WrongType(name, "a list of strings", value);
    // Entries that other versions know are ignored.
    to.want_worker_id |= element.AsString() == "worker_id";
    to.want_timing |= element.AsString() == "timing";
    to.want_kv |= element.AsString() == "kv";
  }
  return {};
}

Status ReadNvext(const Json& value, std::string_view name, GenerateParams& to) {
  if (!value.IsObject()) return WrongType(name, "an object", value);
  static const std::vector<F> kFields = {
      {"extra_fields", F::Custom{ReadExtraFields}},
      {"cache_salt", F::Custom{ReadSalt}},
      {"annotations", Unsupported{{"[]"}, {}}},
      {"greed_sampling", Unsupported{{"false"}, "send temperature 0"}},
      {"use_raw_prompt", Unsupported{{"false"}, "use /v1/completions"}},
      {"backend_instance_id", Unsupported{{}, {}}},
      {"prefill_worker_id", Unsupported{{}, {}}},
      {"decode_worker_id", Unsupported{{}, {}}},
      {"dp_rank", Unsupported{{"0"}, {}}},
      {"prefill_dp_rank", Unsupported{{"0"}, {}}},
      {"token_data", Unsupported{{"[]"}, "use /v1/completions with token ids"}},
      {"max_thinking_tokens", Unsupported{{}, {}}},
      {"metadata_upload", Unsupported{{}, {}}},
      {"agent_hints", Informational{}},
      {"request_timestamp_ms", Informational{}},
      {"routing_constraints", Unsupported{{"{}"}, {}}},
      {"router", Unsupported{{"{}"}, {}}},
  };
  auto status = ReadMembers(value.AsObject(), Bound{kFields, to});
  if (!status) status.error().param = fmt::format("nvext.{}", status.error().param);
  return status;
}

const std::vector<F>& SamplingFields() {
  using P = GenerateParams;
  static const std::vector<F> kFields = {
      {"model", F::String{&P::model, kMaxNameBytes}},
      {"temperature", F::Number{&P::temperature, 0, 2}},
      {"top_p", F::Number{&P::top_p, 0, 1, true}},
      {"top_k", F::Int{&P::top_k, -1, kMaxTokens}},
      {"min_p", F::Number{&P::min_p, 0, 1}},
      {"repetition_penalty", F::Number{&P::repetition_penalty, 0, kNoLimit, true}},
      {"presence_penalty", F::Number{&P::presence_penalty, -2, 2}},
      {"frequency_penalty", F::Number{&P::frequency_penalty, -2, 2}},
      {"seed", F::Int{&P::seed, -kMaxInt - 1, kMaxInt}},
      {"logit_bias", F::Custom{ReadLogitBias}},
      {"allowed_token_ids", F::Custom{ReadAllowed}},
      {"bad_words", F::Custom{ReadBadWords}},
      {"n", F::Int{&P::n, 1, kMaxChoices}},
      {"max_tokens", F::Int{&P::max_tokens, 1, kMaxTokens}},
      {"min_tokens", F::Int{&P::min_tokens, 0, kMaxTokens}},
      {"stop", F::Custom{ReadStop}},
      {"stop_token_ids", F::TokenIds{&P::stop_token_ids}},
      {"include_stop_str_in_output", F::Bool{&P::include_stop_str_in_output}},
      {"ignore_eos", F::Bool{&P::ignore_eos}},
      {"skip_special_tokens", F::Bool{&P::skip_special_tokens}},
      {"stream", F::Bool{&P::stream}},
      {"stream_options", F::Custom{ReadStreamOptions}},
      {"return_token_ids", F::Bool{&P::return_token_ids}},
      {"return_tokens_as_token_ids", F::Bool{&P::return_tokens_as_token_ids}},
      {"add_special_tokens", F::Bool{&P::add_special_tokens}},
      {"cache_salt", F::Custom{ReadSalt}},
      {"priority", F::Int{&P::priority, -kMaxTokens - 1, kMaxTokens}},
      {"request_id", F::String{&P::request_id, kMaxIdBytes}},
      {"nvext", F::Custom{ReadNvext}},
  };
  return kFields;
}

// Fields of the reference that this version knows but does not serve, and informational ones.
const std::vector<F>& OtherFields() {
  static const std::vector<F> kFields = {
      {"user", Informational{}},
      {"metadata", Informational{}},
      {"store", Informational{}},
      {"service_tier", Informational{}},
      {"safety_identifier", Informational{}},
      {"prompt_cache_key", Informational{}},
      {"session_id", Informational{}},
      {"vllm_xargs", Unsupported{{"{}"}, {}}},
      {"stream_interval", Unsupported{{"1"}, {}}},
      {"use_beam_search", Unsupported{{"false"}, {}}},
      {"best_of", Unsupported{{"1"}, "use n"}},
      {"length_penalty", Unsupported{{"1", "1.0"}, {}}},
      {"spaces_between_special_tokens", Unsupported{{"true"}, {}}},
      {"truncate_prompt_tokens", Unsupported{{}, "shorten the prompt"}},
      {"truncation_side", Unsupported{{}, {}}},
      {"prompt_logprobs", Unsupported{{}, {}}},
      {"logprob_token_ids", Unsupported{{}, {}}},
      {"response_format", Unsupported{{R"({"type":"text"})"}, "ask for the format in the prompt"}},
      {"structured_outputs", Unsupported{{}, "ask for the format in the prompt"}},
      {"guided_json", Unsupported{{}, "ask for the format in the prompt"}},
      {"guided_regex", Unsupported{{}, "ask for the format in the prompt"}},
      {"guided_choice", Unsupported{{}, "ask for the format in the prompt"}},
      {"guided_grammar", Unsupported{{}, "ask for the format in the prompt"}},
      {"repetition_detection", Unsupported{{}, {}}},
      {"watermarking", Unsupported{{}, {}}},
      {"return_prompt_text", Unsupported{{"false"}, {}}},
      {"return_token_offsets", Unsupported{{"false"}, {}}},
      {"kv_transfer_params", Inner{}},
      {"ec_transfer_params", Inner{}},
  };
  return kFields;
}

}  // namespace

std::span<const Field<GenerateParams>> GenerateFields() {
  static const std::vector<F> kAll = [] {
    std::vector<F> all = SamplingFields();
    all.insert(all.end(), OtherFields().begin(), OtherFields().end());
    return all;
  }();
  return kAll;
}

Status CheckGenerateParams(const GenerateParams& params) {
  if ((params.include_usage || params.continuous_usage_stats) && !params.stream)
    return FieldErr("stream_options", "stream_options needs stream to be true");
  if (params.max_tokens && params.min_tokens > *params.max_tokens)
    return FieldErr("min_tokens", "min_tokens is {}, more than max_tokens, which is {}",
                    params.min_tokens, *params.max_tokens);
  if (!params.stop.empty())
    TRY(text::StopMatcher::Create(params.stop, params.include_stop_str_in_output));
  return {};
}

}  // namespace tandem::frontend

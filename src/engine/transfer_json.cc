#include "engine/transfer_json.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "wire/json.h"
#include "wire/json_writer.h"

namespace tandem::engine {
namespace {

constexpr std::string_view kField = "kv_transfer_params";
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kMaxNameBytes = 1024;
constexpr double kMaxLeaseSeconds = 86400;

std::unexpected<Error> Wrong(std::string_view name, std::string_view wanted) {
  return FieldErr(kField, "kv_transfer_params.{} must be {}", name, wanted);
}

Result<bool> Flag(const wire::Json& object, std::string_view name) {
  const wire::Json* value = object.Find(name);
  if (value == nullptr || value->IsNull()) return false;
  if (!value->IsBool()) return Wrong(name, "true or false");
  return value->AsBool();
}

Result<std::string> Text(const wire::Json& object, std::string_view name) {
  const wire::Json* value = object.Find(name);
  if (value == nullptr || !value->IsString() || value->AsString().empty() ||
      value->AsString().size() > kMaxNameBytes)
    return Wrong(name, "a text of 1 to 1024 bytes");
  return value->AsString();
}

Result<uint64_t> Hexadecimal(const wire::Json& object, std::string_view name) {
  TRY_ASSIGN(const std::string text, Text(object, name));
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || parsed.ec != std::errc() || parsed.ptr != end)
    return Wrong(name, "16 hexadecimal digits");
  return value;
}

Result<int64_t> Integer(const wire::Json& object, std::string_view name, int64_t low,
                        int64_t high) {
  const wire::Json* value = object.Find(name);
  if (value == nullptr || !value->IsInt() || value->AsInt() < low || value->AsInt() > high)
    return Wrong(name, fmt::format("an integer from {} to {}", low, high));
  return value->AsInt();
}

Result<std::vector<kv::BlockRef>> Blocks(const wire::Json& object) {
  const wire::Json* ids = object.Find(xfer::kRemoteBlockIds);
  const wire::Json* generations = object.Find(xfer::kGenerations);
  // One list per KV cache group; there is one group here.
  if (ids != nullptr && ids->IsArray() && ids->AsArray().size() == 1 &&
      ids->AsArray().front().IsArray())
    ids = &ids->AsArray().front();
  if (ids == nullptr || !ids->IsArray() || ids->AsArray().empty())
    return Wrong(xfer::kRemoteBlockIds, "one list of block ids");
  if (generations == nullptr || !generations->IsArray() ||
      generations->AsArray().size() != ids->AsArray().size())
    return Wrong(xfer::kGenerations, "as many numbers as there are block ids");
  std::vector<kv::BlockRef> blocks;
  blocks.reserve(ids->AsArray().size());
  for (size_t i = 0; i < ids->AsArray().size(); ++i) {
    const wire::Json& id = ids->AsArray()[i];
    const wire::Json& generation = generations->AsArray()[i];
    if (!id.IsInt() || id.AsInt() < 0 || id.AsInt() > std::numeric_limits<kv::BlockId>::max())
      return Wrong(xfer::kRemoteBlockIds, "a list of non-negative integers");
    if (!generation.IsInt() || generation.AsInt() < 0)
      return Wrong(xfer::kGenerations, "a list of non-negative integers");
    blocks.push_back({.block = static_cast<kv::BlockId>(id.AsInt()),
                      .generation = static_cast<uint64_t>(generation.AsInt())});
  }
  return blocks;
}

Result<Duration> LeaseDuration(const wire::Json& object) {
  const wire::Json* value = object.Find(xfer::kLeaseSeconds);
  if (value == nullptr || !value->IsNumber() || !(value->AsDouble() > 0) ||
      value->AsDouble() > kMaxLeaseSeconds)
    return Wrong(xfer::kLeaseSeconds, "a number above 0, at most 86400");
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value->AsDouble()));
}

Result<xfer::TransferParams> Remote(const wire::Json& object) {
  xfer::TransferParams params;
  TRY_ASSIGN(params.engine_id, Text(object, xfer::kRemoteEngineId));
  TRY_ASSIGN(params.request_id, Text(object, xfer::kRemoteRequestId));
  TRY_ASSIGN(params.host, Text(object, xfer::kRemoteHost));
  TRY_ASSIGN(const int64_t port, Integer(object, xfer::kRemotePort, 1, 65535));
  params.port = static_cast<uint16_t>(port);
  TRY_ASSIGN(params.incarnation, Hexadecimal(object, xfer::kIncarnation));
  TRY_ASSIGN(params.lease, Hexadecimal(object, xfer::kLease));
  TRY_ASSIGN(params.num_tokens, Integer(object, xfer::kRemoteNumTokens, 1, int64_t{1} << 40));
  TRY_ASSIGN(params.blocks, Blocks(object));
  TRY_ASSIGN(params.lease_duration, LeaseDuration(object));
  if (const wire::Json* tp = object.Find(xfer::kTpSize);
      tp != nullptr && !tp->IsNull() && (!tp->IsInt() || tp->AsInt() != 1))
    return Wrong(xfer::kTpSize, "1: this engine does not shard KV");
  return params;
}

}  // namespace

Result<ParsedTransfer> ParseTransfer(std::string_view json) {
  ParsedTransfer parsed;
  if (json.empty()) return parsed;
  const auto object =
      wire::ParseJson(json, {.max_bytes = kMaxBytes, .max_depth = 8, .max_values = 2'200'000});
  if (!object) return FieldErr(kField, "kv_transfer_params: {}", object.error().message);
  if (!object->IsObject()) return FieldErr(kField, "kv_transfer_params must be a JSON object");
  TRY_ASSIGN(const bool prefill, Flag(*object, xfer::kDoRemoteDecode));
  TRY_ASSIGN(const bool decode, Flag(*object, xfer::kDoRemotePrefill));
  if (prefill && decode)
    return FieldErr(
        kField,
        "kv_transfer_params has both do_remote_decode and do_remote_prefill; a request is "
        "one leg or the other");
  if (prefill) parsed.leg = Leg::kPrefill;
  if (!decode) return parsed;
  parsed.leg = Leg::kDecode;
  TRY_ASSIGN(parsed.remote, Remote(*object));
  return parsed;
}

std::string WriteTransfer(const xfer::TransferParams& params) {
  std::string out;
  wire::JsonWriter writer(out);
  writer.BeginObject();
  writer.Key(xfer::kDoRemotePrefill).Bool(true);
  writer.Key(xfer::kDoRemoteDecode).Bool(false);
  writer.Key(xfer::kRemoteEngineId).String(params.engine_id);
  writer.Key(xfer::kRemoteBlockIds).BeginArray().BeginArray();
  for (const kv::BlockRef& block : params.blocks) writer.Int(block.block);
  writer.EndArray().EndArray();
  writer.Key(xfer::kRemoteRequestId).String(params.request_id);
  writer.Key(xfer::kRemoteHost).String(params.host);
  writer.Key(xfer::kRemotePort).Int(params.port);
  writer.Key(xfer::kTpSize).Int(1);
  writer.Key(xfer::kRemoteNumTokens).Int(params.num_tokens);
  writer.Key(xfer::kRemoteBlocksExpiryTime).Double(params.expiry_seconds);
  writer.Key(xfer::kLease).String(fmt::format("{:016x}", params.lease));
  writer.Key(xfer::kIncarnation).String(fmt::format("{:016x}", params.incarnation));
  writer.Key(xfer::kGenerations).BeginArray();
  for (const kv::BlockRef& block : params.blocks) writer.Int(block.generation);
  writer.EndArray();
  writer.Key(xfer::kLeaseSeconds).Double(ToSeconds(params.lease_duration));
  writer.EndObject();
  return out;
}

}  // namespace tandem::engine

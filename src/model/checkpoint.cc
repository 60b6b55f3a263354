#include "model/checkpoint.h"

#include <algorithm>
#include <cctype>

#include "base/hash.h"
#include "model/gguf_cursor.h"
#include "model/weights_digest.h"

namespace tandem::model {
namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;

// Members of `over` replace those of `config`.
Status Override(const std::string& text, wire::Json& config) {
  const auto over = wire::ParseJson(text);
  if (!over || !over->IsObject())
    return Err(Code::kInvalidArgument, "--hf-overrides is not a JSON object{}{}: '{}'",
               over ? "" : ": ", over ? "" : over.error().message, Printable(text));
  wire::Json::Object members = config.AsObject();
  for (const wire::Json::Member& member : over->AsObject()) {
    const auto found = std::ranges::find(members, member.key, &wire::Json::Member::key);
    if (found == members.end())
      members.push_back(member);
    else
      found->value = member.value;
  }
  config = wire::Json(std::move(members));
  return {};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path,
                                                     const std::string& overrides) {
  TRY_ASSIGN(const ModelFiles files, FindModelFiles(path));
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->label_ = path;
  checkpoint->paths_ = files.weights;
  if (files.kind == ModelFiles::Kind::kFolder) {
    TRY(checkpoint->OpenFolder(files, overrides));
    return checkpoint;
  }
  if (!overrides.empty())
    return Err(Code::kInvalidArgument,
               "--hf-overrides replaces members of config.json, and {} has none: leave it out",
               path);
  TRY(checkpoint->OpenGguf(files));
  return checkpoint;
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::Of(const GgufView& file) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->label_ = file.label();
  TRY_ASSIGN(const GgufConfig config, GgufConfig::Of(file));
  TRY_ASSIGN(checkpoint->family_, FindGgufFamily(config));
  TRY(checkpoint->AddGguf(file));
  TRY_ASSIGN(checkpoint->config_, ReadCommonGguf(config));
  TRY(checkpoint->family_->read_gguf(config, checkpoint->config_));
  TRY(CheckConfig(checkpoint->config_, file.label()));
  return checkpoint;
}

Status Checkpoint::AddGguf(const GgufView& file) {
  for (const Tensor& tensor : file.tensors())
    if (!tensors_.emplace(tensor.name, &tensor).second)
      return Err(Code::kCorrupt, "{}: tensor {} is in another part too", file.label(),
                 Printable(tensor.name));
  return {};
}

Status Checkpoint::OpenGguf(const ModelFiles& files) {
  for (const std::string& path : files.weights) {
    TRY_ASSIGN(auto file, GgufFile::Open(path));
    ggufs_.push_back(std::move(file));
    TRY(AddGguf(ggufs_.back()->view()));
  }
  const GgufView& first = ggufs_.front()->view();
  TRY_ASSIGN(const uint64_t parts, first.Uint("split.count", 1));
  if (std::max<uint64_t>(parts, 1) != ggufs_.size())
    return Err(Code::kCorrupt, "{}: the model is split into {} files, but {} are here: {}",
               first.label(), parts, ggufs_.size(),
               "name the first part, with the others beside it under their own names");
  TRY_ASSIGN(const GgufConfig config, GgufConfig::Of(first));
  TRY_ASSIGN(family_, FindGgufFamily(config));
  TRY_ASSIGN(config_, ReadCommonGguf(config));
  TRY(family_->read_gguf(config, config_));
  return CheckConfig(config_, label_);
}

Status Checkpoint::OpenFolder(const ModelFiles& files, const std::string& overrides) {
  const std::string path = files.folder + "/config.json";
  TRY_ASSIGN(const MappedFile text, MappedFile::Open(path));
  description_.assign(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size());
  Result<wire::Json> json = wire::ParseJson(description_, {.max_bytes = kMaxConfigBytes});
  if (!json || !json->IsObject())
    return Err(Code::kCorrupt, "{} is not a JSON object{}{}", path, json ? "" : ": ",
               json ? "" : json.error().message);
  if (!overrides.empty()) TRY(Override(overrides, *json));
  description_ += overrides;
  const HfConfig config(*json, path);
  TRY_ASSIGN(family_, FindHfFamily(config));
  TRY_ASSIGN(config_, ReadCommonHf(config));
  TRY(family_->read_hf(config, config_));
  TRY(CheckConfig(config_, path));
  for (const std::string& weights : files.weights) {
    TRY_ASSIGN(MappedFile mapped, MappedFile::Open(weights));
    TRY_ASSIGN(SafetensorsView view, SafetensorsView::Parse(mapped.bytes(), weights));
    mapped_.push_back(std::move(mapped));
    views_.push_back(std::make_unique<SafetensorsView>(std::move(view)));
    for (const Tensor& tensor : views_.back()->tensors())
      if (!tensors_.emplace(GgufNameOf(*family_, tensor.name), &tensor).second)
        return Err(Code::kCorrupt, "{}: tensor {} is there twice", weights, Printable(tensor.name));
    for (const SafetensorsView::Unsupported& other : views_.back()->unsupported())
      unsupported_.emplace(GgufNameOf(*family_, other.name), other.type);
  }
  return {};
}

const Tensor* Checkpoint::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

Error Checkpoint::WhyMissing(std::string_view name) const {
  const auto type = unsupported_.find(name);
  if (type != unsupported_.end())
    return Err(Code::kUnsupported,
               "{}: tensor {} has type {}, which is not supported (supported: {})", label_, name,
               type->second, "F32, F16, BF16, F8_E4M3: use a release of the model in one of these")
        .error();
  return Err(Code::kCorrupt, "{}: tensor {} is missing", label_, name).error();
}

// Tensors of a file that are no weights of the layers that are computed: tables that we compute
// ourselves, and further layers for speculation.
bool Checkpoint::Ignored(std::string_view name) const {
  if (name.ends_with("rotary_emb.inv_freq") || name.starts_with("rope_f") ||
      name == "output.weight")
    return true;
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return false;
  int64_t layer = 0;
  for (const char c : name.substr(kBlock.size())) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || layer > 1 << 20) break;
    layer = layer * 10 + (c - '0');
  }
  return layer >= config_.layer_count();
}

Status Checkpoint::RefuseOthers(const std::unordered_set<const Tensor*>& used) const {
  for (const auto& [name, tensor] : tensors_)
    if (!used.contains(tensor) && !Ignored(name))
      return Err(Code::kUnsupported,
                 "{}: tensor {} is not part of the supported form of architecture '{}'", label_,
                 Printable(tensor->name), config_.architecture);
  for (const auto& [name, type] : unsupported_)
    if (!Ignored(name))
      return Err(Code::kUnsupported,
                 "{}: tensor {} of type {} is not part of the supported form of architecture '{}'",
                 label_, Printable(name), type, config_.architecture);
  return {};
}

Result<std::string> Checkpoint::Digest(const std::string& cache_dir) const {
  std::string all;
  for (size_t i = 0; i < paths_.size(); ++i) {
    const std::span<const std::byte> bytes =
        ggufs_.empty() ? mapped_[i].bytes() : ggufs_[i]->bytes();
    TRY_ASSIGN(const std::string digest, WeightsDigestOf(bytes, paths_[i], cache_dir));
    if (paths_.size() == 1 && description_.empty()) return digest;
    all += digest;
  }
  return Hex(Sha256(all + description_));
}

}  // namespace tandem::model

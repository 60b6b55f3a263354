#include "frontend/error_body.h"

#include "base/error_table.h"
#include "wire/json_writer.h"

namespace tandem::frontend {

int StatusOf(const Error& error, int overload_status) {
  return error.code == Code::kOverloaded ? overload_status : RowOf(error.code).http_status;
}

std::string ErrorBody(const Error& error, int status) {
  std::string out;
  wire::JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(error.message);
  json.Key("type").String(RowOf(error.code).openai_type);
  json.Key("param");
  if (error.param.empty())
    json.Null();
  else
    json.String(error.param);
  json.Key("code").Int(status);
  json.EndObject().EndObject();
  return out;
}

}  // namespace tandem::frontend

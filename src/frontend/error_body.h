// Errors as clients see them: {"error":{"message","type","param","code"}}.
#ifndef TANDEM_FRONTEND_ERROR_BODY_H_
#define TANDEM_FRONTEND_ERROR_BODY_H_

#include <string>

#include "base/result.h"

namespace tandem::frontend {

// The HTTP status of an error; `overload_status` replaces the table's for kOverloaded.
int StatusOf(const Error& error, int overload_status = 529);
std::string ErrorBody(const Error& error, int status);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_ERROR_BODY_H_

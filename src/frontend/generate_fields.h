// The fields that chat and completions share.
#ifndef TANDEM_FRONTEND_GENERATE_FIELDS_H_
#define TANDEM_FRONTEND_GENERATE_FIELDS_H_

#include <span>

#include "frontend/request.h"
#include "frontend/schema.h"

namespace tandem::frontend {

std::span<const Field<GenerateParams>> GenerateFields();

// Rules between fields, after all were read.
Status CheckGenerateParams(const GenerateParams& params);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_GENERATE_FIELDS_H_

// How fast the matrix kernels go through weights of each type.
#ifndef TANDEM_BENCH_TYPE_RATES_H_
#define TANDEM_BENCH_TYPE_RATES_H_

#include <string>

#include "base/team.h"

namespace tandem::model {

// Prints a line for each weight format: one row of activations times 400 MB of generated weights
// (bytes as in a file, medians of `runs`) beside what memory gave in the same second, and eight
// rows at a time. `only`: names of types, all if empty. Returns the program's exit status.
int PrintTypeRates(Team& team, const std::string& isa, int runs, const std::string& only);

}  // namespace tandem::model

#endif  // TANDEM_BENCH_TYPE_RATES_H_

// What the three copies of the hot loop (one for each instruction set) and the Python module share.
#pragma once
#include <cstddef>

#include "lanes.hpp"

namespace boke {

enum Kernel : int { GAUSSIAN = 0, TRIANGULAR = 1, EPANECHNIKOV = 2, QUARTIC = 3 };

// t observations in groups of LANES: group g holds column k of its observations at z[(g * p + k) * LANES].
struct Data {
    Kernel kernel;
    std::size_t t, groups, p, c;  // observations, groups of them, numeric columns, categorical columns
    const double *z;              // groups * p * LANES, padded with 0
    const double *codes;          // groups * c * LANES
    const double *y, *w;          // groups * LANES, padded with 0
    const double *penalty;        // c: squared distance of unlike categories
};

// n queries and where their sums go; the gradients' arrays are null when not asked for.
struct Queries {
    std::size_t n;
    const double *z, *codes;  // n * p, n * c
    std::ptrdiff_t own;       // query i is observation own + i and skips itself; -1: it is none
    double *W, *S, *mean, *log_W, *shift;  // n
    double *dW, *dmean, *dlog_W;           // n * p
    void *scratch;                         // 2 * p * LANES doubles, aligned, for the gradients
};

// Squared distances (n, m) of n points from m others, all by rows of d, or the largest differences; work: d * LANES.
using Distances = void (*)(const double *x, std::size_t n, const double *others, std::size_t m, std::size_t d, bool largest,
                           double *to, double *work);

using Evaluate = void (*)(const Data &, const Queries &);

#define BOKE_COPY(isa)                                    \
    void evaluate_##isa(const Data &, const Queries &); \
    void distances_##isa(const double *, std::size_t, const double *, std::size_t, std::size_t, bool, double *, double *);
BOKE_COPY(baseline)
#ifdef BOKE_X86
BOKE_COPY(avx2)
BOKE_COPY(avx512)
#endif
#undef BOKE_COPY

}  // namespace boke

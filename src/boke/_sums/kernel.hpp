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

// Codes of BLOCK points of a coarse copy, below 128: four columns of a point side by side, then those of the next point, and
// after all points the next four columns.
constexpr std::size_t BLOCK = 64, TOGETHER = 4;

// How far (BLOCK) the points are from a query by so many groups of columns: sums of squares of the differences between codes, or
// the largest difference. The mask is 255 for columns that count and 0 for the others. What lies `ahead` bytes further on is asked
// for meanwhile. Returns whether any is within the limit; where not, they may be given up.
using Away = bool (*)(const unsigned char *codes, const unsigned char *query, const unsigned char *mask, std::size_t groups, int limit,
                      std::size_t ahead, int *away);

using Evaluate = void (*)(const Data &, const Queries &);

// t observations of weight 1 in single precision, one after the other: p coordinates and the value less `middle`.
struct Rough {
    std::size_t t, p;
    double middle;
    const float *rows;
};

// m + beta (W + rho)^(-1/2) at n points x, by rows of p, to about five digits; silent observations count in W. The squared
// distance of the nearest observation is at most `nearest` (n), in bandwidths. The gaussian kernel only. work: (p + t) * 2 *
// LANES floats, aligned, for the larger t.
using Screen = void (*)(const Rough &seen, const Rough &silent, const double *x, const double *nearest, std::size_t n,
                        const double *bandwidth, double beta, double rho, double *values, void *work);

// The same at one scaled point, exact, and its slope (p); m alone where beta is 0. `nearest` is at least the squared distance
// of the nearest observation, and becomes it. work: `rise_room`.
using Rise = double (*)(const Data &seen, const Data *silent, const double *q, double beta, double rho, double *nearest, double *slope,
                        double *work);
inline std::size_t rise_room(std::size_t groups) { return groups * (LANES + 1); }

// exp of n numbers between -700 and 0, in place; n is a multiple of LANES.
using Exponentials = void (*)(double *x, std::size_t n);

#define BOKE_COPY(isa)                                    \
    void evaluate_##isa(const Data &, const Queries &); \
    void distances_##isa(const double *, std::size_t, const double *, std::size_t, std::size_t, bool, double *, double *); \
    bool squares_##isa(const unsigned char *, const unsigned char *, const unsigned char *, std::size_t, int, std::size_t, int *); \
    bool farthest_##isa(const unsigned char *, const unsigned char *, const unsigned char *, std::size_t, int, std::size_t, int *); \
    void screen_##isa(const Rough &, const Rough &, const double *, const double *, std::size_t, const double *, double, double, double *, void *); \
    double rise_##isa(const Data &, const Data *, const double *, double, double, double *, double *, double *); \
    void exponentials_##isa(double *, std::size_t);
BOKE_COPY(baseline)
#ifdef BOKE_X86
BOKE_COPY(avx2)
BOKE_COPY(avx512)
#endif
#undef BOKE_COPY

}  // namespace boke

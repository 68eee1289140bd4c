// A small Gaussian process for the neighbourhood of an incumbent: what the module and its copies share.
#pragma once
#include <cstddef>

#include "lanes.hpp"

namespace boke {

// Observations (n, d) around the origin and their standardized values. Matrices are square, with rows and columns up to
// `stride`.
struct GP {
    std::size_t n, d, stride;      // stride: n rounded up to a multiple of 8
    std::size_t width;             // of the factor's rows: there the versions of the values stand beside the matrix
    const double *z;               // n * d by rows
    const double *y, *jacobian;    // versions * n: the values, transformed in several ways; log Jacobians of these
    std::size_t versions;
    std::size_t version;           // the one in use
    double *by_column;             // d * stride: z by columns
    double *by_row;                // stride * (d rounded up): z by rows
    double *norms;                 // stride: |z_i|^2
    double *beside;                // stride * side_width: y by rows, as it stands in the factor's last vectors, else zero
    double *distance, *quadratic;  // |z_i - z_j|^2 and (1 + z_i . z_j)^2, upper triangles
    double *matern;                // one matrix for each length scale, filled when needed
    bool *filled;                  // lengths
    double *factor;                // stride * width: upper triangular U with K = U'U, reciprocals on its diagonal, and U^-T y
    double *squared_pivots;        // stride: squares of U's diagonal; one beyond n
    double *inverse;               // rows of U^-T (lower triangular)
    double *inverse_by_column;     // the same, transposed: the rows of U^-1
    double *alpha;                 // stride: K^-1 y
    double length, trend, noise;   // hyperparameters in use
    double variance;               // the signal's
    double likelihood;             // log marginal likelihood
};

struct Grid {
    const double *length, *trend, *noise;
    std::size_t lengths, trends, noises;
};

constexpr std::size_t whole(std::size_t n) { return (n + LANES - 1) / LANES * LANES; }  // rounded up to vectors
// Of the last vectors of a row of the factor, with the values
constexpr std::size_t side_width(std::size_t n, std::size_t versions) { return whole(n + versions) - n / LANES * LANES; }

// Room for scratch
inline std::size_t stretched_room(const GP &gp) {
    return (3 * gp.stride + gp.width + LANES + 4 + gp.d + whole(gp.d)) * gp.stride + LANES;
}
inline std::size_t predict_room(const GP &gp) { return LANES * (gp.stride + gp.d + 1); }
inline std::size_t log_ei_room(const GP &gp) { return 5 * gp.stride + whole(gp.d); }
inline std::size_t draw_room(const GP &gp, std::size_t m) {
    return (gp.d + 2 + gp.stride + 2 * whole(m)) * whole(m) + LANES * gp.stride;
}

struct GPFunctions {
    void (*prepare)(GP &);
    double (*median_distance)(GP &);  // squared; of two observations or more
    // Log marginal likelihood of a point of the grid, -inf if the matrix is not positive definite; leaves its factor.
    double (*likelihood)(GP &, const Grid &, std::size_t i, std::size_t j, std::size_t k);
    void (*finish)(GP &);
    // The same as the likelihood, but for the Jacobian, with columns stretched by exp(by), which is left in the work
    // (stretched_room); and, from there, its slopes in `by` and, unless `metric` is null, in a metric.
    double (*stretched)(const GP &, const double *by, double *work);
    void (*stretched_slopes)(const GP &, double *slope, double *metric, double *work);
    // Mean and standard deviation at m points, with room for whole(m); work: predict_room.
    void (*predict)(const GP &, const double *q, std::size_t m, double *mean, double *sd, double *work);
    // Log expected improvement over `best` from these, with room for as many.
    void (*log_eis)(const double *mean, const double *sd, std::size_t m, double best, double *values);
    // Log expected improvement over `best` at one point and, if asked for, its slopes; work: log_ei_room.
    double (*log_ei)(const GP &, const double *q, double best, double *slope, double *work);
    // One draw of the function at m points, from m standard normal numbers; work: draw_room.
    void (*draw)(const GP &, const double *q, std::size_t m, const double *normal, double *values, double *work);
    // For symmetric H (d, d), all rows and vectors whole and zero beyond d: H x, and H += a s s' - t s' - s t'.
    void (*curve)(const double *H, std::size_t d, const double *x, double *to);
    void (*bend)(double *H, std::size_t d, const double *s, double a, const double *t);
};

GPFunctions gp_baseline();
#ifdef BOKE_X86
GPFunctions gp_avx2();
GPFunctions gp_avx512();
#endif

}  // namespace boke

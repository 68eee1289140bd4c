// A small Gaussian process for the neighbourhood of an incumbent: what the module and its copies share.
#pragma once
#include <cstddef>

namespace boke {

constexpr std::size_t VERSIONS = 4;  // of the values that are solved for together

// Observations (n, d) around the origin and their standardized values; rows of all matrices are `stride` apart.
struct GP {
    std::size_t n, d, stride;      // stride: n rounded up to a multiple of 8
    const double *z;               // n * d by rows
    const double *y, *jacobian;    // versions * n: the values, transformed in several ways; log Jacobians of these
    std::size_t versions;
    std::size_t version;           // the one in use
    double *by_column;             // d * stride: z by columns
    double *distance, *gram;       // n * stride: |z_i - z_j|^2 and z_i . z_j, upper triangles
    double *matern;                // lengths * n * stride, one matrix for each length scale, filled when needed
    bool *filled;                  // lengths
    double *factor;                // n * stride: upper triangular U with K = U'U
    double *inverse;               // n * stride: rows of U^-T (lower triangular)
    double *alpha, *work;          // stride, VERSIONS * stride: K^-1 y and scratch
    double length, trend, noise;   // hyperparameters in use
    double variance;               // the signal's
};

struct Grid {
    const double *length, *trend, *noise;
    std::size_t lengths, trends, noises;
};

struct GPFunctions {
    void (*prepare)(GP &);
    // Log marginal likelihood of a point of the grid, -inf if the matrix is not positive definite; leaves its factor.
    double (*likelihood)(GP &, const Grid &, std::size_t i, std::size_t j, std::size_t k);
    void (*finish)(GP &);
    // The same as the likelihood, but for the Jacobian, with columns stretched by exp(by), and its slopes in `by`;
    // work: (d + 4 n + 2) * stride.
    double (*stretched)(const GP &, const double *by, double *slope, double *metric, double *work);
    void (*predict)(const GP &, const double *q, std::size_t m, double *mean, double *sd, double *work);
    // Log expected improvement over `best` at one point and, if asked for, its slopes.
    double (*log_ei)(const GP &, const double *q, double best, double *slope, double *work);
    // One draw of the function at m points, from m standard normal numbers; work: m * (stride + rows) + 3 * stride.
    void (*draw)(const GP &, const double *q, std::size_t m, const double *normal, double *values, double *work);
};

GPFunctions gp_baseline();
#ifdef BOKE_X86
GPFunctions gp_avx2();
GPFunctions gp_avx512();
#endif

}  // namespace boke

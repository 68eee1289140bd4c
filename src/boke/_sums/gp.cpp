// A small Gaussian process: Matern-5/2 plus a quadratic trend, k = matern(|x - x'| / l) + a (1 + x . x')^2 + noise.
// ../gp.py says what is computed. As the kernel sums, this is compiled once for each instruction set, and all copies
// agree to the last bit: loops over vectors are element by element, and dot products have eight running sums each.
#include "gp.hpp"

#include "special.hpp"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INLINE inline __attribute__((always_inline))

namespace boke {
namespace {

constexpr double INF = __builtin_huge_val();
constexpr double SQRT5 = 2.23606797749978969;
constexpr double SMALLEST = 1e-20;  // of the variance, relative to the signal's
constexpr double JITTER = 1e-8;     // of a drawn function, relative to its variance a priori

// exp(x) for x <= 0, 0 below -700; branch-free, so that loops over it become vector code
INLINE double exponential(double x) {
    const double magic = 6755399441055744.0;
    const double inside = x < -700.0 ? -700.0 : x;
    const double shifted = inside * 1.4426950408889634 + magic;
    const double n = shifted - magic;
    const double r = (inside - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    const double r2 = r * r, r4 = r2 * r2;
    const double low = ((1.0 + r) + r2 * (1.0 / 2 + r * (1.0 / 6))) +
                       r4 * ((1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040)));
    const double high = ((1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800))) +
                        r4 * (1.0 / 479001600 + r * (1.0 / 6227020800));
    const double value = low + (r4 * r4) * high;
    long long bits, power;
    __builtin_memcpy(&bits, &value, sizeof bits);
    __builtin_memcpy(&power, &shifted, sizeof power);
    bits += power << 52;
    double result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return x < -700.0 ? 0.0 : result;
}

typedef double Eight __attribute__((vector_size(64)));

typedef long long EightInts __attribute__((vector_size(64)));

INLINE Eight load(const double *from) {
    Eight v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

INLINE double dot(const double *a, const double *b, std::size_t n) {
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (std::size_t k = 0; k < 8; ++k) sum[k] += a[i + k] * b[i + k];
    for (std::size_t k = 0; i < n; ++i, ++k) sum[k] += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

INLINE void add(double *to, double factor, const double *from, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

INLINE double matern(double squared, double length) {
    const double r = SQRT5 / length * __builtin_sqrt(squared);
    return (1.0 + r + r * r * (1.0 / 3)) * exponential(-r);
}

// The same for eight distances at once, operation for operation
INLINE Eight matern(Eight squared, double length) {
    Eight root;
    for (std::size_t l = 0; l < 8; ++l) root[l] = __builtin_sqrt(squared[l]);
    const Eight r = SQRT5 / length * root, low = r - r - 700.0, x = -r < low ? low : -r;
    const double magic = 6755399441055744.0;
    const Eight shifted = x * 1.4426950408889634 + magic, n = shifted - magic;
    const Eight e = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10, e2 = e * e, e4 = e2 * e2;
    const Eight first = ((1.0 + e) + e2 * (1.0 / 2 + e * (1.0 / 6))) +
                        e4 * ((1.0 / 24 + e * (1.0 / 120)) + e2 * (1.0 / 720 + e * (1.0 / 5040)));
    const Eight second = ((1.0 / 40320 + e * (1.0 / 362880)) + e2 * (1.0 / 3628800 + e * (1.0 / 39916800))) +
                         e4 * (1.0 / 479001600 + e * (1.0 / 6227020800));
    const Eight value = (Eight)((EightInts)(first + (e4 * e4) * second) + ((EightInts)shifted << 52));
    return (1.0 + r + r * r * (1.0 / 3)) * (-r < low ? Eight{} : value);
}

void prepare(GP &gp) {
    for (std::size_t i = 0; i < gp.n; ++i)
        for (std::size_t k = 0; k < gp.d; ++k) gp.by_column[k * gp.stride + i] = gp.z[i * gp.d + k];
    for (std::size_t i = 0; i < gp.n; ++i) {
        double *away = gp.distance + i * gp.stride, *product = gp.gram + i * gp.stride;
        for (std::size_t j = 0; j < gp.stride; ++j) away[j] = product[j] = 0.0;
        for (std::size_t k = 0; k < gp.d; ++k) {
            const double *column = gp.by_column + k * gp.stride;
            const double at = gp.z[i * gp.d + k];
            for (std::size_t j = 0; j < gp.n; ++j) {
                away[j] += (column[j] - at) * (column[j] - at);
                product[j] += column[j] * at;
            }
        }
    }
}

// In place: the upper triangle of K by rows becomes U with K = U'U; false if K is not positive definite
bool decompose(double *factor, std::size_t n, std::size_t stride) {
    constexpr std::size_t BLOCK = 4;  // rows that are finished together: fewer passes over the rest
    for (std::size_t first = 0; first < n; first += BLOCK) {
        const std::size_t last = first + BLOCK < n ? first + BLOCK : n;
        for (std::size_t k = first; k < last; ++k) {
            double *pivot = factor + k * stride;
            for (std::size_t r = first; r < k; ++r) {
                const double *done = factor + r * stride;
                add(pivot + k, -done[k], done + k, n - k);
            }
            if (!(pivot[k] > 0.0)) return false;
            const double root = __builtin_sqrt(pivot[k]);
            for (std::size_t j = k; j < n; ++j) pivot[j] /= root;
        }
        if (last - first < BLOCK) break;
        const double *a = factor + first * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        for (std::size_t i = last; i < n; ++i) {
            double *row = factor + i * stride;
            const double ai = a[i], bi = b[i], ci = c[i], di = d[i];
            for (std::size_t j = i; j < n; ++j) row[j] = (((row[j] - ai * a[j]) - bi * b[j]) - ci * c[j]) - di * d[j];
        }
    }
    return true;
}

// K into `factor`, and there decomposed; false if it is not positive definite
bool factorize(GP &gp, const double *matern) {
    for (std::size_t i = 0; i < gp.n; ++i) {
        double *row = gp.factor + i * gp.stride;
        const double *m = matern + i * gp.stride, *g = gp.gram + i * gp.stride;
        for (std::size_t j = i; j < gp.n; ++j) row[j] = m[j] + gp.trend * ((1.0 + g[j]) * (1.0 + g[j]));
        row[i] += gp.noise * (1.0 + gp.trend) + 1e-10 * row[i];
    }
    return decompose(gp.factor, gp.n, gp.stride);
}

// work = U^-T y
void forward(GP &gp, std::size_t version) {
    for (std::size_t i = 0; i < gp.n; ++i) gp.work[i] = gp.y[version * gp.n + i];
    for (std::size_t k = 0; k < gp.n; ++k) {
        const double *row = gp.factor + k * gp.stride;
        gp.work[k] /= row[k];
        add(gp.work + k + 1, -gp.work[k], row + k + 1, gp.n - k - 1);
    }
}

double likelihood(GP &gp, const Grid &grid, std::size_t i, std::size_t j, std::size_t k) {
    gp.length = grid.length[i], gp.trend = grid.trend[j], gp.noise = grid.noise[k];
    double *m = gp.matern + i * gp.n * gp.stride;
    if (!gp.filled[i]) {
        for (std::size_t row = 0; row < gp.n; ++row)
            for (std::size_t c = row; c < gp.n; ++c)
                m[row * gp.stride + c] = matern(gp.distance[row * gp.stride + c], gp.length);
        gp.filled[i] = true;
    }
    if (!factorize(gp, m)) return -INF;
    const double n = static_cast<double>(gp.n);
    double half = 0.0, best = -INF;
    for (std::size_t r = 0; r < gp.n; ++r) half += __builtin_log(gp.factor[r * gp.stride + r]);
    for (std::size_t v = 0; v < gp.versions; ++v) {
        forward(gp, v);
        const double raw = dot(gp.work, gp.work, gp.n) / n, variance = raw > 1e-30 ? raw : 1e-30;
        const double value = gp.jacobian[v] - half - 0.5 * n * __builtin_log(variance);
        if (value > best) best = value, gp.version = v, gp.variance = variance;
    }
    return best;
}

// From the factor: rows of U^-T and alpha = K^-1 y
void finish(GP &gp) {
    const std::size_t n = gp.n, stride = gp.stride;
    forward(gp, gp.version);
    for (std::size_t i = 0; i < n * stride; ++i) gp.inverse[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        double *row = gp.inverse + i * stride;
        row[i] = 1.0;
        for (std::size_t k = 0; k < i; ++k) add(row, -gp.factor[k * stride + i], gp.inverse + k * stride, k + 1);
        const double pivot = gp.factor[i * stride + i];
        for (std::size_t j = 0; j <= i; ++j) row[j] /= pivot;
    }
    for (std::size_t i = 0; i < stride; ++i) gp.alpha[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i) add(gp.alpha, gp.work[i], gp.inverse + i * stride, i + 1);
}

// The likelihood of the model, less its Jacobian, if column k is stretched by exp(by[k]); and its slopes in these.
//
// With K the covariance, a = K^-1 y and P = (n a a' / (y' a) - K^-1) / 2 the slopes are those of K, weighted with P.
double stretched(const GP &gp, const double *by, double *slope, double *work) {
    const std::size_t n = gp.n, d = gp.d, stride = gp.stride, square = n * stride;
    double *gram = work, *radial = gram + square, *inverse = radial + square;
    GP own = gp;  // its own places for what differs
    own.by_column = inverse + square, own.factor = own.by_column + d * stride, own.work = own.factor + square;
    own.alpha = own.work + stride, own.gram = gram, own.inverse = inverse;
    for (std::size_t i = 0; i < 2 * square; ++i) work[i] = 0.0;
    for (std::size_t k = 0; k < d; ++k) {
        const double factor = __builtin_exp(by[k]);
        double *column = own.by_column + k * stride;
        for (std::size_t i = 0; i < n; ++i) column[i] = factor * gp.by_column[k * stride + i];
        for (std::size_t i = 0; i < n; ++i) {
            const double at = column[i];
            double *away = radial + i * stride, *product = gram + i * stride;
            for (std::size_t j = i; j < n; ++j) {
                away[j] += (column[j] - at) * (column[j] - at);
                product[j] += column[j] * at;
            }
        }
    }
    const double steep = -5.0 / (3.0 * gp.length * gp.length);
    double *kernel = inverse;  // not needed before the factor is there
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = i; j < n; ++j) {
            const double r = SQRT5 / gp.length * __builtin_sqrt(radial[i * stride + j]), e = exponential(-r);
            kernel[i * stride + j] = (1.0 + r + r * r * (1.0 / 3)) * e;
            radial[i * stride + j] = steep * (1.0 + r) * e;
        }
    if (!factorize(own, kernel)) return -INF;
    double half = 0.0;
    for (std::size_t r = 0; r < n; ++r) half += __builtin_log(own.factor[r * stride + r]);
    finish(own);
    const double raw = dot(own.work, own.work, n), count = static_cast<double>(n);
    const double total = raw > 1e-30 * count ? raw : 1e-30 * count;
    double *weights = own.factor;  // P by rows, lower triangle
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) weights[i * stride + j] = 0.5 * count / total * own.alpha[i] * own.alpha[j];
    for (std::size_t r = 0; r < n; ++r) {
        const double *row = inverse + r * stride;
        for (std::size_t i = 0; i <= r; ++i) add(weights + i * stride, -0.5 * row[i], row, i + 1);
    }
    // What multiplies the products of a column's entries, both triangles, and their squares
    double *both = inverse, *squares = own.work;
    for (std::size_t i = 0; i < n; ++i) squares[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            const double steepness = weights[i * stride + j] * radial[j * stride + i];
            const double trend = weights[i * stride + j] * 4.0 * gp.trend * (1.0 + gram[j * stride + i]);
            both[i * stride + j] = both[j * stride + i] = trend - 2.0 * steepness;
            squares[i] += 2.0 * steepness;
            if (j < i) squares[j] += 2.0 * steepness;
        }
    for (std::size_t k = 0; k < d; ++k) {
        const double *column = own.by_column + k * stride;
        slope[k] = 0.0;
        for (std::size_t i = 0; i < n; ++i)
            slope[k] += column[i] * (dot(both + i * stride, column, n) + squares[i] * column[i]);
    }
    return -half - 0.5 * count * __builtin_log(total / count);
}

// Kernel values with one point: k (n), and the distances and products behind them
INLINE void cross(const GP &gp, const double *q, double *k, double *squared, double *product) {
    for (std::size_t i = 0; i < gp.n; ++i) squared[i] = product[i] = 0.0;
    for (std::size_t c = 0; c < gp.d; ++c) {
        const double *column = gp.by_column + c * gp.stride;
        for (std::size_t i = 0; i < gp.n; ++i) {
            const double away = column[i] - q[c];
            squared[i] += away * away;
            product[i] += column[i] * q[c];
        }
    }
    for (std::size_t i = 0; i < gp.n; ++i)
        k[i] = matern(squared[i], gp.length) + gp.trend * ((1.0 + product[i]) * (1.0 + product[i]));
}

INLINE double prior(const GP &gp, double square) { return 1.0 + gp.trend * ((1.0 + square) * (1.0 + square)); }

INLINE double floored(const GP &gp, double share) { return gp.variance * (share > SMALLEST ? share : SMALLEST); }

// Eight points at a time: every operation is a vector operation over them.
void predict(const GP &gp, const double *q, std::size_t m, double *mean, double *sd, double *work) {
    constexpr std::size_t B = 8;
    double *k = work, *by_column = work + B * gp.stride;  // n * B, d * B
    for (std::size_t first = 0; first < m; first += B) {
        const std::size_t some = m - first < B ? m - first : B;
        double square[B] = {};
        Eight sum = {}, explained = {};
        for (std::size_t c = 0; c < gp.d; ++c)
            for (std::size_t l = 0; l < B; ++l) {
                const double at = q[(first + (l < some ? l : 0)) * gp.d + c];
                by_column[c * B + l] = at;
                square[l] += at * at;
            }
        for (std::size_t i = 0; i < gp.n; ++i) {
            Eight squared = {}, product = {};
            for (std::size_t c = 0; c < gp.d; ++c) {
                const Eight at = load(by_column + c * B), away = gp.z[i * gp.d + c] - at;
                squared += away * away;
                product += gp.z[i * gp.d + c] * at;
            }
            const Eight value = matern(squared, gp.length) + gp.trend * ((1.0 + product) * (1.0 + product));
            __builtin_memcpy(k + i * B, &value, sizeof value);
            sum += value * gp.alpha[i];
        }
        for (std::size_t i = 0; i < gp.n; ++i) {
            const double *row = gp.inverse + i * gp.stride;
            Eight v[4] = {};  // four running sums, for independent additions
            std::size_t j = 0;
            for (; j + 4 <= i + 1; j += 4)
                for (std::size_t r = 0; r < 4; ++r) v[r] += row[j + r] * load(k + (j + r) * B);
            for (; j <= i; ++j) v[0] += row[j] * load(k + j * B);
            const Eight all = (v[0] + v[2]) + (v[1] + v[3]);
            explained += all * all;
        }
        for (std::size_t l = 0; l < some; ++l) {
            mean[first + l] = sum[l];
            sd[first + l] = __builtin_sqrt(floored(gp, prior(gp, square[l]) - explained[l]));
        }
    }
}

double log_ei(const GP &gp, const double *q, double best, double *slope, double *work) {
    double *k = work, *squared = work + gp.stride, *product = work + 2 * gp.stride;
    double *v = work + 3 * gp.stride, *w = work + 4 * gp.stride;
    cross(gp, q, k, squared, product);
    double explained = 0.0;
    for (std::size_t i = 0; i < gp.n; ++i) {
        v[i] = dot(gp.inverse + i * gp.stride, k, i + 1);
        explained += v[i] * v[i];
    }
    const double square = dot(q, q, gp.d), share = prior(gp, square) - explained;
    const double mean = dot(k, gp.alpha, gp.n), sd = __builtin_sqrt(floored(gp, share)), u = (mean - best) / sd;
    const double log_h = log_improvement(u);
    if (slope != nullptr) {
        for (std::size_t i = 0; i < gp.stride; ++i) w[i] = 0.0;  // K^-1 k
        for (std::size_t i = 0; i < gp.n; ++i) add(w, v[i], gp.inverse + i * gp.stride, i + 1);
        // dk_i/dq = radial_i (q - z_i) + linear_i z_i; `squared` and `product` are used up by now
        for (std::size_t i = 0; i < gp.n; ++i) {
            const double r = SQRT5 / gp.length * __builtin_sqrt(squared[i]);
            squared[i] = -5.0 / (3.0 * gp.length * gp.length) * (1.0 + r) * exponential(-r);
            product[i] = 2.0 * gp.trend * (1.0 + product[i]);
        }
        const double gain = log_improvement_slope(u, log_h), moves = share > SMALLEST ? 1.0 : 0.0;
        for (std::size_t c = 0; c < gp.d; ++c) {
            const double *column = gp.by_column + c * gp.stride;
            for (std::size_t i = 0; i < gp.n; ++i) k[i] = squared[i] * (q[c] - column[i]) + product[i] * column[i];
            const double dmean = dot(k, gp.alpha, gp.n);
            const double dvariance = moves * gp.variance * (4.0 * gp.trend * (1.0 + square) * q[c] - 2.0 * dot(k, w, gp.n));
            const double dsd = 0.5 * dvariance / sd;
            slope[c] = dsd / sd + gain * (dmean - u * dsd) / sd;
        }
    }
    return __builtin_log(sd) + log_h;
}

// The posterior covariance of the points is factorized as it is, with the smallest diagonal that makes it possible.
void draw(const GP &gp, const double *q, std::size_t m, const double *normal, double *values, double *work) {
    const std::size_t rows = (m + 7) / 8 * 8;
    double *v = work, *factor = v + m * gp.stride, *k = factor + m * rows, *squared = k + gp.stride;
    for (std::size_t i = 0; i < m; ++i) {
        cross(gp, q + i * gp.d, k, squared, squared + gp.stride);
        values[i] = dot(k, gp.alpha, gp.n);
        for (std::size_t j = 0; j < gp.n; ++j) v[i * gp.stride + j] = dot(gp.inverse + j * gp.stride, k, j + 1);
    }
    for (double extra = JITTER; extra < 1.0; extra *= 100.0) {
        for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = i; j < m; ++j) {
                double away = 0.0, product = 0.0;
                for (std::size_t c = 0; c < gp.d; ++c) {
                    const double a = q[i * gp.d + c], b = q[j * gp.d + c];
                    away += (a - b) * (a - b);
                    product += a * b;
                }
                const double own = matern(away, gp.length) + gp.trend * ((1.0 + product) * (1.0 + product));
                factor[i * rows + j] = own - dot(v + i * gp.stride, v + j * gp.stride, gp.n) + (i == j ? extra * own : 0.0);
            }
        if (!decompose(factor, m, rows)) continue;
        const double sd = __builtin_sqrt(gp.variance);
        for (std::size_t i = 0; i < m; ++i) add(values + i, sd * normal[i], factor + i * rows + i, m - i);
        return;
    }
}

}  // namespace

GPFunctions JOIN(gp_, BOKE_ISA)() { return {prepare, likelihood, finish, stretched, predict, log_ei, draw}; }

}  // namespace boke

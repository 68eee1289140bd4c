// A small Gaussian process: Matern-5/2 plus a quadratic trend, k = matern(|x - x'| / l) + a (1 + x . x')^2 + noise.
// ../gp.py says what is computed. As the kernel sums, this is compiled once for each instruction set, and all copies
// agree to the last bit: loops over vectors are element by element, and dot products have eight running sums each.
//
// Rows are whole vectors of eight. A loop over part of a row begins and ends with a whole vector: what it computes
// beside the part is never read, or is zero. Loops that take four rows at once do for each element what four loops
// would, in the same order, with fewer loads.
#include "gp.hpp"

#include "lanes.hpp"
#include "special.hpp"

namespace boke {
namespace {

constexpr double SQRT5 = 2.23606797749978969;
constexpr double SMALLEST = 1e-20;  // of the variance, relative to the signal's
constexpr double JITTER = 1e-8;     // of a drawn function, relative to its variance a priori

INLINE std::size_t before(std::size_t i) { return i / LANES * LANES; }  // where the vector with element i begins
INLINE std::size_t beyond(std::size_t i) { return (i + LANES - 1) / LANES * LANES; }  // where the one with i - 1 ends

// n a multiple of eight, or the rest of both rows zero
INLINE double dot(const double *a, const double *b, std::size_t n) {
    Lanes sum = all(0.0);
    for (std::size_t j = 0; j < n; j += LANES) sum += load(a + j) * load(b + j);
    return total(sum);
}

// Of any n
INLINE double short_dot(const double *a, const double *b, std::size_t n) {
    double sum[LANES] = {};
    for (std::size_t i = 0; i < n; ++i) sum[i % LANES] += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

// Products of the first `rows` rows of a matrix with a vector, elements up to n, a multiple of eight
INLINE void products(const double *matrix, std::size_t stride, std::size_t rows, const double *x, std::size_t n, double *to) {
    std::size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const double *a = matrix + i * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        Lanes sum[4] = {all(0.0), all(0.0), all(0.0), all(0.0)};
        for (std::size_t j = 0; j < n; j += LANES) {
            const Lanes v = load(x + j);
            sum[0] += load(a + j) * v, sum[1] += load(b + j) * v, sum[2] += load(c + j) * v, sum[3] += load(d + j) * v;
        }
        for (std::size_t r = 0; r < 4; ++r) to[i + r] = total(sum[r]);
    }
    for (; i < rows; ++i) to[i] = dot(matrix + i * stride, x, n);
}

INLINE void add(double *to, double factor, const double *from, std::size_t n) {
    for (std::size_t j = 0; j < n; j += LANES) store(to + j, load(to + j) + factor * load(from + j));
}

// to += factors[0] * rows[0] + ... + factors[N - 1] * rows[N - 1], term by term
template <std::size_t N>
INLINE void add_all(double *to, const double *factors, const double *rows, std::size_t stride, std::size_t first,
                    std::size_t n) {
    for (std::size_t j = first; j < n; j += LANES) {
        Lanes sum = load(to + j);
        for (std::size_t k = 0; k < N; ++k) sum += factors[k] * load(rows + k * stride + j);
        store(to + j, sum);
    }
}

INLINE Lanes scaled_root(const Lanes &squared, double length) { return SQRT5 / length * root(squared); }

// exp(-r), 0 beyond 700
INLINE Lanes decay(const Lanes &r) {
    const Mask near = r < all(700.0);
    return choose(near, exponential(choose(near, all(-1.0) * r, all(-700.0))), all(0.0));
}

INLINE Lanes matern(const Lanes &squared, double length) {
    const Lanes r = scaled_root(squared, length);
    return (1.0 + r + r * r * all(1.0 / 3)) * decay(r);
}

INLINE double matern(double squared, double length) { return matern(all(squared), length)[0]; }

struct Pair {
    Lanes squared, product;
};

// Squared distances and products of observation i with eight others from j on
INLINE Pair pairs(const double *by_column, std::size_t d, std::size_t stride, std::size_t i, std::size_t j) {
    Pair sum = {all(0.0), all(0.0)};
    for (std::size_t k = 0; k < d; ++k) {
        const double at = by_column[k * stride + i];
        const Lanes column = load(by_column + k * stride + j), away = column - all(at);
        sum.squared += away * away;
        sum.product += at * column;
    }
    return sum;
}

void prepare(GP &gp) {
    for (std::size_t k = 0; k < gp.d; ++k)
        for (std::size_t i = 0; i < gp.stride; ++i) gp.by_column[k * gp.stride + i] = i < gp.n ? gp.z[i * gp.d + k] : 0.0;
    for (std::size_t i = 0; i < gp.n; ++i)
        for (std::size_t j = before(i); j < gp.stride; j += LANES) {
            const Pair sum = pairs(gp.by_column, gp.d, gp.stride, i, j);
            store(gp.distance + i * gp.stride + j, sum.squared);
            store(gp.gram + i * gp.stride + j, sum.product);
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
                add(pivot + before(k), -done[k], done + before(k), stride - before(k));
            }
            if (!(pivot[k] > 0.0)) return false;
            const double root = __builtin_sqrt(pivot[k]);
            for (std::size_t j = before(k); j < stride; j += LANES) store(pivot + j, load(pivot + j) / all(root));
        }
        const double *done = factor + first * stride;
        for (std::size_t i = last; i < n; ++i) {
            double factors[BLOCK];
            for (std::size_t k = 0; k < BLOCK; ++k) factors[k] = -done[k * stride + i];
            add_all<BLOCK>(factor + i * stride, factors, done, stride, before(i), stride);
        }
    }
    return true;
}

// K into `factor`, and there decomposed; false if it is not positive definite
bool factorize(GP &gp, const double *matern) {
    for (std::size_t i = 0; i < gp.n; ++i) {
        double *row = gp.factor + i * gp.stride;
        const double *m = matern + i * gp.stride, *g = gp.gram + i * gp.stride;
        for (std::size_t j = before(i); j < gp.stride; j += LANES)
            store(row + j, load(m + j) + gp.trend * ((1.0 + load(g + j)) * (1.0 + load(g + j))));
        row[i] += gp.noise * (1.0 + gp.trend) + 1e-10 * row[i];
    }
    return decompose(gp.factor, gp.n, gp.stride);
}

// U^-T y for N rows of values at once, from `version` on, into rows of `work`; zero beyond n
template <std::size_t N>
INLINE void forward(const GP &gp, std::size_t version, double *work) {
    const std::size_t n = gp.n, stride = gp.stride;
    for (std::size_t v = 0; v < N; ++v)
        for (std::size_t i = 0; i < stride; ++i) work[v * stride + i] = i < n ? gp.y[(version + v) * n + i] : 0.0;
    for (std::size_t first = 0; first < n; first += LANES) {
        const std::size_t last = first + LANES < n ? first + LANES : n;
        for (std::size_t v = 0; v < N; ++v)
            for (std::size_t k = first; k < last; ++k) {
                const double *row = gp.factor + k * stride;
                double *y = work + v * stride;
                y[k] /= row[k];
                for (std::size_t j = k + 1; j < last; ++j) y[j] -= y[k] * row[j];
            }
        for (std::size_t j = first + LANES; j < stride; j += LANES) {
            Lanes rest[N];
            for (std::size_t v = 0; v < N; ++v) rest[v] = load(work + v * stride + j);
            for (std::size_t k = first; k < first + LANES; ++k) {
                const Lanes row = load(gp.factor + k * stride + j);
                for (std::size_t v = 0; v < N; ++v) rest[v] -= work[v * stride + k] * row;
            }
            for (std::size_t v = 0; v < N; ++v) store(work + v * stride + j, rest[v]);
        }
    }
    for (std::size_t v = 0; v < N; ++v)
        for (std::size_t j = n; j < stride; ++j) work[v * stride + j] = 0.0;
}

INLINE double half_log_determinant(const GP &gp) {
    double half = 0.0;
    for (std::size_t r = 0; r < gp.n; ++r) half += __builtin_log(gp.factor[r * gp.stride + r]);
    return half;
}

double likelihood(GP &gp, const Grid &grid, std::size_t i, std::size_t j, std::size_t k) {
    gp.length = grid.length[i], gp.trend = grid.trend[j], gp.noise = grid.noise[k];
    double *m = gp.matern + i * gp.n * gp.stride;
    if (!gp.filled[i]) {
        for (std::size_t row = 0; row < gp.n; ++row)
            for (std::size_t c = before(row); c < gp.stride; c += 8)
                store(m + row * gp.stride + c, matern(load(gp.distance + row * gp.stride + c), gp.length));
        gp.filled[i] = true;
    }
    if (!factorize(gp, m)) return -INF;
    const double n = static_cast<double>(gp.n), half = half_log_determinant(gp);
    double best = -INF;
    for (std::size_t first = 0; first < gp.versions;) {
        const std::size_t some = gp.versions - first < VERSIONS ? 1 : VERSIONS;
        if (some == 1) forward<1>(gp, first, gp.work);
        else forward<VERSIONS>(gp, first, gp.work);
        for (std::size_t v = 0; v < some; ++v, ++first) {
            const double *solved = gp.work + v * gp.stride;
            const double raw = dot(solved, solved, gp.stride) / n, variance = raw > 1e-30 ? raw : 1e-30;
            const double value = gp.jacobian[first] - half - 0.5 * n * __builtin_log(variance);
            if (value > best) best = value, gp.version = first, gp.variance = variance;
        }
    }
    return best;
}

// From the factor: rows of U^-T and alpha = K^-1 y
void finish(GP &gp) {
    const std::size_t n = gp.n, stride = gp.stride;
    forward<1>(gp, gp.version, gp.work);
    for (std::size_t i = 0; i < n * stride; ++i) gp.inverse[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        double *row = gp.inverse + i * stride;
        row[i] = 1.0;
        std::size_t k = 0;
        for (; k + 4 <= i; k += 4) {
            double factors[4];
            for (std::size_t r = 0; r < 4; ++r) factors[r] = -gp.factor[(k + r) * stride + i];
            add_all<4>(row, factors, gp.inverse + k * stride, stride, 0, beyond(k + 4));
        }
        for (; k < i; ++k) add(row, -gp.factor[k * stride + i], gp.inverse + k * stride, beyond(k + 1));
        const double pivot = gp.factor[i * stride + i];
        for (std::size_t j = 0; j < beyond(i + 1); j += LANES) store(row + j, load(row + j) / all(pivot));
    }
    for (std::size_t i = 0; i < stride; ++i) gp.alpha[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i) add(gp.alpha, gp.work[i], gp.inverse + i * stride, beyond(i + 1));
}

// The likelihood of the model, less its Jacobian, if column k is stretched by exp(by[k]); and its slopes in these, or, into
// `metric` (d * d), in all entries of a matrix that the columns are multiplied with, from the identity on.
//
// With K the covariance, a = K^-1 y and P = (n a a' / (y' a) - K^-1) / 2 the slopes are those of K, weighted with P.
double stretched(const GP &gp, const double *by, double *slope, double *metric, double *work) {
    const std::size_t n = gp.n, d = gp.d, stride = gp.stride, square = n * stride;
    double *gram = work, *radial = gram + square, *inverse = radial + square;
    GP own = gp;  // its own places for what differs
    own.by_column = inverse + square, own.factor = own.by_column + d * stride, own.work = own.factor + square;
    own.alpha = own.work + stride, own.gram = gram, own.inverse = inverse;
    for (std::size_t k = 0; k < d; ++k) {
        const double factor = __builtin_exp(by[k]);
        for (std::size_t i = 0; i < stride; i += LANES)
            store(own.by_column + k * stride + i, factor * load(gp.by_column + k * stride + i));
    }
    // Upper triangles by rows: products, kernel and what its slopes have in common
    const double steep = -5.0 / (3.0 * gp.length * gp.length);
    double *kernel = inverse;  // not needed before the factor is there
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = before(i); j < stride; j += LANES) {
            const Pair sum = pairs(own.by_column, d, stride, i, j);
            const Lanes r = scaled_root(sum.squared, gp.length), e = decay(r);
            store(gram + i * stride + j, sum.product);
            store(kernel + i * stride + j, (1.0 + r + r * r * all(1.0 / 3)) * e);
            store(radial + i * stride + j, steep * (1.0 + r) * e);
        }
    if (!factorize(own, kernel)) return -INF;
    const double half = half_log_determinant(own);
    finish(own);
    const double raw = dot(own.work, own.work, stride), count = static_cast<double>(n);
    const double sum = raw > 1e-30 * count ? raw : 1e-30 * count;
    double *weights = own.factor;  // P
    for (std::size_t i = 0; i < n; ++i) {
        double *row = weights + i * stride;
        for (std::size_t j = before(i); j < stride; j += LANES)
            store(row + j, 0.5 * count / sum * load(own.alpha + j) * all(own.alpha[i]));
        std::size_t r = i;
        for (; r + 4 <= n; r += 4) {
            const double *rows = inverse + r * stride;
            double factors[4];
            for (std::size_t k = 0; k < 4; ++k) factors[k] = -0.5 * rows[k * stride + i];
            add_all<4>(row, factors, rows, stride, before(i), beyond(r + 4));
        }
        for (; r < n; ++r) {
            const double *last = inverse + r * stride;
            add(row + before(i), -0.5 * last[i], last + before(i), beyond(r + 1) - before(i));
        }
    }
    // What multiplies the squares of a column's entries, and products of them; both triangles of the latter
    double *both = inverse, *steepness = weights, *squares = own.work;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = before(i); j < stride; j += LANES) {
            const std::size_t at = i * stride + j;
            const Lanes weight = load(weights + at), steeply = weight * load(radial + at);
            store(both + at, weight * all(4.0) * all(gp.trend) * (1.0 + load(gram + at)) - 2.0 * steeply);
            store(steepness + at, 2.0 * steeply);
        }
    }
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = i + 1; j < n; ++j) {
            both[j * stride + i] = both[i * stride + j];
            steepness[j * stride + i] = steepness[i * stride + j];
        }
    for (std::size_t i = 0; i < stride; ++i) squares[i] = 0.0;
    for (std::size_t i = 0; i < n; ++i) add(squares, 1.0, steepness + i * stride, stride);
    double *along = own.alpha;
    for (std::size_t k = 0; k < d; ++k) {
        const double *column = own.by_column + k * stride;
        products(both, stride, n, column, stride, along);
        slope[k] = 0.0;
        for (std::size_t i = 0; i < n; ++i) slope[k] += column[i] * (along[i] + squares[i] * column[i]);
        for (std::size_t l = 0; metric != nullptr && l < d; ++l) {
            const double *other = own.by_column + l * stride;
            metric[k * d + l] = 0.0;
            for (std::size_t i = 0; i < n; ++i) metric[k * d + l] += other[i] * (along[i] + squares[i] * column[i]);
        }
    }
    return -half - 0.5 * count * __builtin_log(sum / count);
}

// Kernel values with one point: k (n), and the distances and products behind them
INLINE void cross(const GP &gp, const double *q, double *k, double *squared, double *product) {
    for (std::size_t i = 0; i < gp.stride; i += LANES) {
        Lanes away = all(0.0), with = all(0.0);
        for (std::size_t c = 0; c < gp.d; ++c) {
            const Lanes column = load(gp.by_column + c * gp.stride + i), apart = column - all(q[c]);
            away += apart * apart;
            with += q[c] * column;
        }
        store(squared + i, away);
        store(product + i, with);
        store(k + i, matern(away, gp.length) + gp.trend * ((1.0 + with) * (1.0 + with)));
    }
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
        Lanes sum = all(0.0), explained = all(0.0);
        for (std::size_t c = 0; c < gp.d; ++c)
            for (std::size_t l = 0; l < B; ++l) {
                const double at = q[(first + (l < some ? l : 0)) * gp.d + c];
                by_column[c * B + l] = at;
                square[l] += at * at;
            }
        for (std::size_t i = 0; i < gp.n; ++i) {
            Lanes squared = all(0.0), product = all(0.0);
            for (std::size_t c = 0; c < gp.d; ++c) {
                const Lanes at = load(by_column + c * B), away = all(gp.z[i * gp.d + c]) - at;
                squared += away * away;
                product += gp.z[i * gp.d + c] * at;
            }
            const Lanes value = matern(squared, gp.length) + gp.trend * ((1.0 + product) * (1.0 + product));
            store(k + i * B, value);
            sum += gp.alpha[i] * value;
        }
        for (std::size_t i = 0; i < gp.n; ++i) {
            const double *row = gp.inverse + i * gp.stride;
            Lanes v[4] = {all(0.0), all(0.0), all(0.0), all(0.0)};  // four running sums, for independent additions
            std::size_t j = 0;
            for (; j + 4 <= i + 1; j += 4)
                for (std::size_t r = 0; r < 4; ++r) v[r] += row[j + r] * load(k + (j + r) * B);
            for (; j <= i; ++j) v[0] += row[j] * load(k + j * B);
            const Lanes sums = (v[0] + v[2]) + (v[1] + v[3]);
            explained += sums * sums;
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
    products(gp.inverse, gp.stride, gp.n, k, gp.stride, v);
    double explained = 0.0;
    for (std::size_t i = 0; i < gp.n; ++i) explained += v[i] * v[i];
    const double square = short_dot(q, q, gp.d), share = prior(gp, square) - explained;
    const double mean = dot(k, gp.alpha, gp.stride), sd = __builtin_sqrt(floored(gp, share)), u = (mean - best) / sd;
    const double log_h = log_improvement(u);
    if (slope != nullptr) {
        for (std::size_t i = 0; i < gp.stride; ++i) w[i] = 0.0;  // K^-1 k
        std::size_t i = 0;
        for (; i + 4 <= gp.n; i += 4) add_all<4>(w, v + i, gp.inverse + i * gp.stride, gp.stride, 0, beyond(i + 4));
        for (; i < gp.n; ++i) add(w, v[i], gp.inverse + i * gp.stride, beyond(i + 1));
        // dk_i/dq = radial_i (q - z_i) + linear_i z_i; `squared` and `product` are used up by now
        for (i = 0; i < gp.stride; i += LANES) {
            const Lanes r = scaled_root(load(squared + i), gp.length);
            store(squared + i, -5.0 / (3.0 * gp.length * gp.length) * (1.0 + r) * decay(r));
            store(product + i, 2.0 * gp.trend * (1.0 + load(product + i)));
        }
        const double gain = log_improvement_slope(u, log_h), moves = share > SMALLEST ? 1.0 : 0.0;
        for (std::size_t c = 0; c < gp.d; ++c) {
            const double *column = gp.by_column + c * gp.stride;
            Lanes with_alpha = all(0.0), with_w = all(0.0);
            for (i = 0; i < gp.stride; i += LANES) {
                const Lanes z = load(column + i), dk = load(squared + i) * (all(q[c]) - z) + load(product + i) * z;
                with_alpha += dk * load(gp.alpha + i);
                with_w += dk * load(w + i);
            }
            const double dmean = total(with_alpha);
            const double dvariance = moves * gp.variance * (4.0 * gp.trend * (1.0 + square) * q[c] - 2.0 * total(with_w));
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
        values[i] = dot(k, gp.alpha, gp.stride);
        products(gp.inverse, gp.stride, gp.n, k, gp.stride, v + i * gp.stride);
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
                factor[i * rows + j] = own - dot(v + i * gp.stride, v + j * gp.stride, gp.stride) + (i == j ? extra * own : 0.0);
            }
        if (!decompose(factor, m, rows)) continue;
        const double sd = __builtin_sqrt(gp.variance);
        for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = i; j < m; ++j) values[j] += sd * normal[i] * factor[i * rows + j];
        return;
    }
}

}  // namespace

GPFunctions JOIN(gp_, BOKE_ISA)() { return {prepare, likelihood, finish, stretched, predict, log_ei, draw}; }

}  // namespace boke

// A small Gaussian process: Matern-5/2 plus a quadratic trend, k = matern(|x - x'| / l) + a (1 + x . x')^2 + noise.
// ../gp.py says what is computed. As the kernel sums, this is compiled once for each instruction set, and all copies
// agree to the last bit: loops over vectors are element by element, and dot products have eight running sums each.
//
// Matrices are whole blocks of eight rows and columns. A loop over part of a row begins and ends with a whole vector: what
// it computes beside the part is never read, or is zero. Nearly all work is in products of blocks, `subtract`: several rows
// at once do for each element what single rows would, in the same order, with fewer loads.
#include "gp.hpp"

#include "lanes.hpp"
#include "special.hpp"

namespace boke {
namespace {

constexpr double SQRT5 = 2.23606797749978969;
constexpr double FINITE = __DBL_MAX__;
constexpr double SMALLEST = 1e-20;  // of the variance, relative to the signal's
constexpr double JITTER = 1e-8;     // of a drawn function, relative to its variance a priori

INLINE std::size_t before(std::size_t i) { return i / LANES * LANES; }  // where the vector with element i begins

INLINE std::size_t in_fours(std::size_t n) { return (n + 3) / 4 * 4; }

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

// How many rows are kept in registers at once: eight sums, so that none waits for its last addition
constexpr std::size_t AT_ONCE = LANES / PARTS;

// sum[r] -= a[k][r] b[k] for the rows k from `from` to `until`
template <std::size_t N>
INLINE void subtract(Lanes (&sum)[N], const double *a, std::size_t a_stride, const double *b, std::size_t b_stride,
                     std::size_t from, std::size_t until) {
    for (std::size_t k = from; k < until; ++k) {
        const Lanes row = load(b + k * b_stride);
        for (std::size_t r = 0; r < N; ++r) sum[r] -= a[k * a_stride + r] * row;
    }
}

// The same for the first rows of a block `to` of eight
INLINE void subtract_from(double *to, std::size_t stride, std::size_t rows, const double *a, std::size_t a_stride,
                          const double *b, std::size_t b_stride, std::size_t from, std::size_t until) {
    for (std::size_t first = 0; first < rows; first += AT_ONCE) {
        Lanes sum[AT_ONCE];
        for (std::size_t r = 0; r < AT_ONCE; ++r) sum[r] = load(to + (first + r) * stride);
        subtract(sum, a + first, a_stride, b, b_stride, from, until);
        for (std::size_t r = 0; r < AT_ONCE; ++r) store(to + (first + r) * stride, sum[r]);
    }
}

// Sum of weights[k] rows[k] over the rows k from `from` to `until`, both multiples of four, in four running sums
INLINE Lanes combine(const double *weights, std::size_t step, const double *rows, std::size_t stride, std::size_t from,
                     std::size_t until) {
    Lanes sum[4] = {all(0.0), all(0.0), all(0.0), all(0.0)};
    for (std::size_t k = from; k < until; k += 4)
        for (std::size_t r = 0; r < 4; ++r) sum[r] += weights[(k + r) * step] * load(rows + (k + r) * stride);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

INLINE Lanes scaled_root(const Lanes &squared, double length) { return SQRT5 / length * root(squared); }

INLINE Lanes matern(const Lanes &squared, double length) {
    const Lanes r = scaled_root(squared, length);
    return (1.0 + r + r * r * all(1.0 / 3)) * decay(r);
}

INLINE double matern(double squared, double length) { return matern(all(squared), length)[0]; }

// Points by columns, and the squares of their norms
struct Points {
    const double *by_column;
    std::size_t stride;
    const double *norms;
};

// Squared distances and products of N points from i on with eight others from j on. A product is what the norms and the
// distance leave of it: as exact, with fewer operations; the distances of close points are not to be had that way.
template <std::size_t N>
struct Pairs {
    Lanes squared[N], product[N];
    INLINE Pairs(const Points &a, std::size_t i, const Points &b, std::size_t j, std::size_t d) {
        for (std::size_t r = 0; r < N; ++r) squared[r] = all(0.0);
        for (std::size_t k = 0; k < d; ++k) {
            const Lanes column = load(b.by_column + k * b.stride + j);
            for (std::size_t r = 0; r < N; ++r) {
                const Lanes away = column - all(a.by_column[k * a.stride + i + r]);
                squared[r] += away * away;
            }
        }
        for (std::size_t r = 0; r < N; ++r) product[r] = all(0.5) * ((all(a.norms[i + r]) + load(b.norms + j)) - squared[r]);
    }
};

INLINE Points points(const GP &gp) { return {gp.by_column, gp.stride, gp.norms}; }

INLINE void square_norms(const double *by_column, std::size_t stride, std::size_t d, double *norms) {
    for (std::size_t i = 0; i < stride; i += LANES) {
        Lanes sum = all(0.0);
        for (std::size_t k = 0; k < d; ++k) sum += load(by_column + k * stride + i) * load(by_column + k * stride + i);
        store(norms + i, sum);
    }
}

constexpr std::size_t PAIRS_AT_ONCE = AT_ONCE / 2;

void prepare(GP &gp) {
    for (std::size_t k = 0; k < gp.d; ++k)
        for (std::size_t i = 0; i < gp.stride; ++i) gp.by_column[k * gp.stride + i] = i < gp.n ? gp.z[i * gp.d + k] : 0.0;
    square_norms(gp.by_column, gp.stride, gp.d, gp.norms);
    const std::size_t first = gp.n - before(gp.n), side = side_width(gp.n, gp.versions);
    for (std::size_t i = 0; i < gp.stride * side; ++i) gp.beside[i] = 0.0;
    for (std::size_t v = 0; v < gp.versions; ++v)
        for (std::size_t i = 0; i < gp.n; ++i) gp.beside[i * side + first + v] = gp.y[v * gp.n + i];
    const std::size_t row = whole(gp.d);
    for (std::size_t i = 0; i < gp.stride; ++i)
        for (std::size_t k = 0; k < row; ++k) gp.by_row[i * row + k] = i < gp.n && k < gp.d ? gp.z[i * gp.d + k] : 0.0;
    for (std::size_t i = 0; i < gp.n; i += PAIRS_AT_ONCE)
        for (std::size_t j = before(i); j < gp.stride; j += LANES) {
            const Pairs<PAIRS_AT_ONCE> pairs(points(gp), i, points(gp), j, gp.d);
            for (std::size_t r = 0; r < PAIRS_AT_ONCE; ++r) {
                const std::size_t at = (i + r) * gp.stride + j;
                store(gp.distance + at, pairs.squared[r]);
                store(gp.quadratic + at, (1.0 + pairs.product[r]) * (1.0 + pairs.product[r]));
            }
        }
}

// How many of n numbers, a multiple of eight, are no larger than a limit
INLINE std::size_t count_within(const double *values, std::size_t n, double limit) {
    Lanes larger = all(0.0);
    for (std::size_t i = 0; i < n; i += LANES) larger += choose(all(limit) < load(values + i), all(1.0), all(0.0));
    return n - static_cast<std::size_t>(total(larger));
}

// The largest of those, or zero
INLINE double largest_within(const double *values, std::size_t n, double limit) {
    Lanes largest = all(0.0);
    for (std::size_t i = 0; i < n; i += LANES) {
        const Lanes value = load(values + i), within = choose(all(limit) < value, all(0.0), value);
        largest = choose(largest < within, within, largest);
    }
    double most = 0.0;
    for (std::size_t l = 0; l < LANES; ++l) most = largest[l] > most ? largest[l] : most;
    return most;
}

// The median of the squared distances by bisection, until one number more than the smaller half is left: no branches that
// cannot be foreseen, as a partial sort has. The factor is not there yet, and its place is free.
double median_distance(GP &gp) {
    double *values = gp.factor;
    std::size_t n = 0;
    for (std::size_t i = 0; i < gp.n; n += gp.n - ++i)
        for (std::size_t j = i + 1; j < gp.n; ++j) values[n + j - i - 1] = gp.distance[i * gp.stride + j];
    const std::size_t half = n / 2;
    while (n % LANES != 0) values[n++] = INF;
    double low = 0.0, high = largest_within(values, n, FINITE);
    if (count_within(values, n, low) > half) return low;
    for (;;) {
        const double middle = low + 0.5 * (high - low);
        if (!(low < middle && middle < high)) return high;  // neighbours: many are equal
        const std::size_t within = count_within(values, n, middle);
        if (within == half + 1) return largest_within(values, n, middle);
        (within <= half ? low : high) = middle;
    }
}

// Eight columns of eight rows, multiplied with the inverse of U' of a block on the diagonal; zero where the reciprocals of
// its pivots are.
INLINE void solve_block(const double *block, std::size_t stride, double *to, std::size_t to_stride) {
    Lanes row[LANES];
    UNROLL for (std::size_t i = 0; i < LANES; ++i) {
        row[i] = load(to + i * to_stride);
        UNROLL for (std::size_t k = 0; k < i; ++k) row[i] -= block[k * stride + i] * row[k];
        row[i] *= all(block[i * stride + i]);
        store(to + i * to_stride, row[i]);
    }
}

// A block on the diagonal, of which so many rows count: false if it is not positive definite. Divided by pivots first, by
// their square roots when all are there: one pivot waits for the other, and a square root takes long.
INLINE bool decompose_block(double *block, std::size_t stride, std::size_t rows, double *squared_pivot) {
    Lanes row[LANES];
    UNROLL for (std::size_t i = 0; i < LANES; ++i) row[i] = load(block + i * stride), squared_pivot[i] = 1.0;
    UNROLL for (std::size_t k = 0; k < LANES; ++k) {
        if (k == rows) break;
        squared_pivot[k] = row[k][k];
        const Lanes reciprocal = all(1.0 / row[k][k]);
        UNROLL for (std::size_t i = k + 1; i < LANES; ++i) row[i] -= (row[k][i] * row[k]) * reciprocal;
    }
    for (std::size_t k = 0; k < rows; ++k)
        if (!(squared_pivot[k] > 0.0)) return false;
    const Lanes reciprocals = all(1.0) / root(load(squared_pivot));
    UNROLL for (std::size_t i = 0; i < LANES; ++i) {
        const double reciprocal = i < rows ? reciprocals[i] : 0.0;
        store(block + i * stride, row[i] * all(reciprocal));
        block[i * stride + i] = reciprocal;
    }
    return true;
}

// In place: the upper triangle of K by rows becomes U with K = U'U, but for its diagonal, where the reciprocals of the
// pivots are needed; columns beside it are multiplied with U^-T; rows beyond n become zero. False if K is not positive
// definite.
bool decompose(double *factor, std::size_t n, std::size_t stride, double *squared_pivots) {
    for (std::size_t i = 0; i < n; i += LANES) {
        double *block = factor + i * stride;
        const std::size_t rows = n - i < LANES ? n - i : LANES;
        subtract_from(block + i, stride, rows, factor + i, stride, factor + i, stride, 0, i);
        if (!decompose_block(block + i, stride, rows, squared_pivots + i)) return false;
        for (std::size_t j = i + LANES; j < stride; j += LANES) {
            subtract_from(block + j, stride, rows, factor + i, stride, factor + j, stride, 0, i);
            solve_block(block + i, stride, block + j, stride);
        }
    }
    return true;
}

// From the kernel in `factor`: noise, values beside it, and decomposed; false if it is not positive definite
bool factorize(GP &gp) {
    const std::size_t n = gp.n, last = before(n), side = side_width(gp.n, gp.versions);
    const Mask inside = numbers() < all(static_cast<double>(n - last));
    for (std::size_t i = 0; i < gp.stride; ++i) {
        double *row = gp.factor + i * gp.width;
        const double *beside = gp.beside + i * side;
        if (i < n) row[i] += gp.noise * (1.0 + gp.trend) + 1e-10 * row[i];
        store(row + last, choose(inside, i < n ? load(row + last) : all(0.0), load(beside)));
        for (std::size_t j = LANES; j < side; j += LANES) store(row + last + j, load(beside + j));
    }
    return decompose(gp.factor, n, gp.width, gp.squared_pivots);
}

// The sum of the logarithms of pivots
INLINE double half_log_determinant(const GP &gp) {
    Lanes sum = all(0.0);
    for (std::size_t i = 0; i < gp.stride; i += LANES) sum += logarithm(load(gp.squared_pivots + i));
    return 0.5 * total(sum);
}

// y' K^-1 y of eight versions from column j of the factor on, where U^-T y stand
INLINE Lanes squared_norms(const GP &gp, std::size_t j) {
    Lanes sum[2] = {all(0.0), all(0.0)};
    for (std::size_t i = 0; i < gp.stride; ++i) {
        const Lanes row = load(gp.factor + i * gp.width + j);
        sum[i % 2] += row * row;
    }
    return sum[0] + sum[1];
}

double likelihood(GP &gp, const Grid &grid, std::size_t i, std::size_t j, std::size_t k) {
    gp.length = grid.length[i], gp.trend = grid.trend[j], gp.noise = grid.noise[k];
    double *radial = gp.matern + i * gp.stride * gp.stride;
    for (std::size_t row = 0; row < gp.n && !gp.filled[i]; ++row)
        for (std::size_t at = row * gp.stride + before(row); at < (row + 1) * gp.stride; at += LANES)
            store(radial + at, matern(load(gp.distance + at), gp.length));
    gp.filled[i] = true;
    for (std::size_t row = 0; row < gp.n; ++row) {
        const double *m = radial + row * gp.stride, *q = gp.quadratic + row * gp.stride;
        for (std::size_t c = before(row); c < gp.stride; c += LANES)
            store(gp.factor + row * gp.width + c, load(m + c) + gp.trend * load(q + c));
    }
    if (!factorize(gp)) return gp.likelihood = -INF;
    const double n = static_cast<double>(gp.n), half = half_log_determinant(gp);
    double best = -INF;
    for (std::size_t c = before(gp.n); c < gp.width; c += LANES) {
        const Lanes raw = squared_norms(gp, c) / all(n), least = all(1e-30), variance = choose(least < raw, raw, least);
        const Lanes logarithms = logarithm(variance);
        for (std::size_t l = c < gp.n ? gp.n - c : 0; l < LANES && c + l < gp.n + gp.versions; ++l) {
            const std::size_t version = c + l - gp.n;
            const double value = gp.jacobian[version] - half - 0.5 * n * logarithms[l];
            if (value > best) best = value, gp.version = version, gp.variance = variance[l];
        }
    }
    return gp.likelihood = best;
}

// From the factor: rows of U^-T, and alpha = K^-1 y
void invert(const GP &gp) {
    const std::size_t stride = gp.stride, width = gp.width;
    for (std::size_t i = 0; i < stride; i += LANES)
        for (std::size_t j = 0; j <= i; j += LANES) {
            const std::size_t rows = gp.n - i < LANES ? gp.n - i : LANES;
            double *block = gp.inverse + i * stride + j;
            for (std::size_t r = 0; r < LANES; ++r) {
                store(block + r * stride, all(0.0));
                if (i == j) block[r * stride + r] = 1.0;
            }
            subtract_from(block, stride, rows, gp.factor + i, width, gp.inverse + j, stride, j, i);
            solve_block(gp.factor + i * width + i, width, block, stride);
        }
    for (std::size_t j = 0; j < stride; j += LANES)
        store(gp.alpha + j, combine(gp.factor + gp.n + gp.version, width, gp.inverse + j, stride, j, in_fours(gp.n)));
}

// The same, with the columns of U^-T as well: its blocks, transposed
void finish(GP &gp) {
    invert(gp);
    for (std::size_t i = 0; i < gp.stride; i += LANES)
        for (std::size_t j = 0; j < i + LANES; ++j)
            for (std::size_t r = 0; r < LANES; ++r)
                gp.inverse_by_column[j * gp.stride + i + r] = gp.inverse[(i + r) * gp.stride + j];
}

// What the entries of a block on the diagonal count if those above it count for both triangles
INLINE Lanes share_above(std::size_t row) {
    const Lanes i = all(static_cast<double>(row));
    return choose(i < numbers(), all(1.0), choose(numbers() < i, all(0.0), all(0.5)));
}

// From the inverse's rows: 2 P = n a a' / (y' a) - K^-1, times what it weighs: all that multiplies products of a column's
// entries into `linear`, row sums of what multiplies their squares into `squares`; in triangles, as both halves are the same.
INLINE void weigh(const GP &gp, double scale, double *linear, const double *radial, double *squares) {
    const std::size_t stride = gp.stride;
    for (std::size_t i = 0; i < stride; i += LANES) store(squares + i, all(0.0));
    for (std::size_t i = 0; i < gp.n; i += AT_ONCE) {
        Lanes along[AT_ONCE];
        for (std::size_t r = 0; r < AT_ONCE; ++r) along[r] = all(0.0);
        for (std::size_t j = before(i); j < stride; j += LANES) {
            Lanes weight[AT_ONCE], across = load(squares + j);
            for (std::size_t r = 0; r < AT_ONCE; ++r) weight[r] = scale * gp.alpha[i + r] * load(gp.alpha + j);
            subtract(weight, gp.inverse + i, stride, gp.inverse + j, stride, j, gp.n);
            for (std::size_t r = 0; r < AT_ONCE; ++r) {
                const std::size_t at = (i + r) * stride + j;
                if (j <= i) weight[r] *= share_above(i + r - j);
                const Lanes steep = weight[r] * load(radial + at);
                store(linear + at, weight[r] * load(linear + at) - (steep + steep));
                along[r] += steep, across += steep;
            }
            store(squares + j, across);
        }
        for (std::size_t r = 0; r < AT_ONCE; ++r) squares[i + r] += total(along[r]);
    }
}

// Slopes in the factors of N columns from c on and, if asked for, in their products with all columns: these for both
// triangles when they are added to their transposed. `along` (N * stride) is scratch.
template <std::size_t N>
INLINE void column_slopes(const GP &gp, const double *linear, const double *squares, std::size_t c, double *along,
                          double *slope, double *metric) {
    const std::size_t stride = gp.stride, row = whole(gp.d);
    const double *columns = gp.by_column + c * stride;
    for (std::size_t j = 0; j < stride; j += LANES) {
        Lanes sum[N];
        for (std::size_t r = 0; r < N; ++r) sum[r] = all(-1.0) * load(squares + j) * load(columns + r * stride + j);
        subtract(sum, gp.by_row + c, row, linear + j, stride, 0, j + LANES);
        for (std::size_t r = 0; r < N; ++r) store(along + r * stride + j, sum[r]);
    }
    for (std::size_t r = 0; r < N; ++r) {
        slope[c + r] = -dot(along + r * stride, columns + r * stride, stride);
        for (std::size_t l = 0; metric != nullptr && l < gp.d; ++l)
            metric[(c + r) * gp.d + l] = -0.5 * dot(along + r * stride, gp.by_column + l * stride, stride);
    }
}

// All of them, from column c on: N at a time, and the rest by fewer
template <std::size_t N>
INLINE void slopes(const GP &gp, const double *linear, const double *squares, std::size_t c, double *along, double *slope,
                   double *metric) {
    for (; c + N <= gp.d; c += N) column_slopes<N>(gp, linear, squares, c, along, slope, metric);
    if constexpr (N > 1) slopes<N / 2>(gp, linear, squares, c, along, slope, metric);
}

// What is made of a model whose columns are stretched
struct Stretched {
    GP own;  // with places of its own for what differs
    double *linear, *radial, *squares, *along, *known;  // known: the variance, and whether nothing is new
    INLINE Stretched(const GP &gp, double *work) : own(gp) {
        const std::size_t stride = gp.stride, square = stride * stride;
        linear = work, radial = linear + square, squares = radial + square, along = squares + stride;
        own.inverse = along + LANES * stride, own.factor = own.inverse + square, own.alpha = own.factor + stride * own.width;
        own.squared_pivots = own.alpha + stride, own.norms = own.squared_pivots + stride;
        own.by_column = own.norms + stride, own.by_row = own.by_column + gp.d * stride;
        known = own.by_row + whole(gp.d) * stride;
    }
};

// The likelihood of the model, less its Jacobian, if column k is stretched by exp(by[k]).
double stretched(const GP &gp, const double *by, double *work) {
    const std::size_t n = gp.n, d = gp.d, stride = gp.stride, row = whole(d);
    Stretched to(gp, work);
    GP &own = to.own;
    for (std::size_t k = 0; k < d; ++k) {
        const double factor = __builtin_exp(by[k]);
        for (std::size_t i = 0; i < stride; i += LANES)
            store(own.by_column + k * stride + i, factor * load(gp.by_column + k * stride + i));
        for (std::size_t i = 0; i < stride; ++i) own.by_row[i * row + k] = own.by_column[k * stride + i];
    }
    square_norms(own.by_column, stride, d, own.norms);
    const double steep = -5.0 / (3.0 * gp.length * gp.length);
    for (std::size_t i = 0; i < stride; i += PAIRS_AT_ONCE)
        for (std::size_t j = before(i); j < stride; j += LANES) {
            const Pairs<PAIRS_AT_ONCE> pairs(points(own), i, points(own), j, d);
            for (std::size_t k = 0; k < PAIRS_AT_ONCE; ++k) {
                const Lanes r = scaled_root(pairs.squared[k], gp.length), e = decay(r), with = 1.0 + pairs.product[k];
                const std::size_t at = (i + k) * stride + j;
                store(own.factor + (i + k) * own.width + j, (1.0 + r + r * r * all(1.0 / 3)) * e + gp.trend * (with * with));
                store(to.radial + at, steep * (1.0 + r) * e);
                store(to.linear + at, 4.0 * gp.trend * with);
            }
        }
    bool same = true;
    for (std::size_t k = 0; k < d; ++k) same = same && by[k] == 0.0;
    to.known[0] = gp.variance, to.known[1] = same;
    if (same) return gp.likelihood - gp.jacobian[gp.version];
    if (!factorize(own)) return -INF;
    const double count = static_cast<double>(n);
    const std::size_t beside = n + gp.version;
    const double raw = squared_norms(own, before(beside))[beside % LANES] / count;
    to.known[0] = raw > 1e-30 ? raw : 1e-30;
    return -half_log_determinant(own) - 0.5 * count * __builtin_log(to.known[0]);
}

// What the work then holds is enough for the slopes of that, if it was finite, in `by` or, into `metric` (d * d), in all entries
// of a matrix that the columns are multiplied with, from the identity on.
//
// With K the covariance, a = K^-1 y and P = (n a a' / (y' a) - K^-1) / 2 the slopes are those of K, weighted with P.
void stretched_slopes(const GP &gp, double *slope, double *metric, double *work) {
    Stretched from(gp, work);
    GP &own = from.own;
    if (from.known[1] != 0.0) own.inverse = gp.inverse, own.alpha = gp.alpha;  // nothing new
    else invert(own);
    weigh(own, 1.0 / from.known[0], from.linear, from.radial, from.squares);
    slopes<LANES / PARTS>(own, from.linear, from.squares, 0, from.along, slope, metric);
    for (std::size_t k = 0; metric != nullptr && k < gp.d; ++k)
        for (std::size_t l = 0; l <= k; ++l)
            metric[k * gp.d + l] = metric[l * gp.d + k] = metric[k * gp.d + l] + metric[l * gp.d + k];
}

INLINE double prior(const GP &gp, double square) { return 1.0 + gp.trend * ((1.0 + square) * (1.0 + square)); }

INLINE double floored(const GP &gp, double share) { return gp.variance * (share > SMALLEST ? share : SMALLEST); }

// The kernel of a pair
template <std::size_t N>
INLINE Lanes value(const GP &gp, const Pairs<N> &pairs, std::size_t r) {
    const Lanes with = 1.0 + pairs.product[r];
    return matern(pairs.squared[r], gp.length) + gp.trend * (with * with);
}

// The kernel k (stride, 8) of the observations with eight points from `first` on, and the means there
INLINE Lanes crossed(const GP &gp, const Points &there, std::size_t first, double *k) {
    Lanes mean = all(0.0);
    for (std::size_t i = 0; i < gp.n; i += PAIRS_AT_ONCE) {
        const Pairs<PAIRS_AT_ONCE> pairs(points(gp), i, there, first, gp.d);
        for (std::size_t r = 0; r < PAIRS_AT_ONCE; ++r) {
            const Lanes one = value(gp, pairs, r);
            store(k + (i + r) * LANES, one);
            mean += gp.alpha[i + r] * one;
        }
    }
    return mean;
}

// Some rows, from i on, of -U^-T k
INLINE void whiten(const GP &gp, const double *k, std::size_t i, Lanes (&v)[AT_ONCE]) {
    for (std::size_t r = 0; r < AT_ONCE; ++r) v[r] = all(0.0);
    subtract(v, gp.inverse_by_column + i, gp.stride, k, LANES, 0, i + AT_ONCE < gp.n ? i + AT_ONCE : gp.n);
}

// Eight points at a time: every operation is a vector operation over them.
void predict(const GP &gp, const double *q, std::size_t m, double *mean, double *sd, double *work) {
    constexpr std::size_t B = LANES;
    double *k = work, *norms = k + B * gp.stride, *by_column = norms + B;  // stride * B, B, d * B
    for (std::size_t first = 0; first < m; first += B) {
        const std::size_t some = m - first < B ? m - first : B;
        for (std::size_t c = 0; c < gp.d; ++c)
            for (std::size_t l = 0; l < B; ++l) by_column[c * B + l] = q[(first + (l < some ? l : 0)) * gp.d + c];
        square_norms(by_column, B, gp.d, norms);
        store(mean + first, crossed(gp, {by_column, B, norms}, 0, k));
        Lanes explained = all(0.0);
        for (std::size_t i = 0; i < gp.n; i += AT_ONCE) {
            Lanes v[AT_ONCE];
            whiten(gp, k, i, v);
            for (std::size_t r = 0; r < AT_ONCE; ++r) explained += v[r] * v[r];
        }
        const Lanes with = 1.0 + load(norms), share = (1.0 + gp.trend * (with * with)) - explained, least = all(SMALLEST);
        store(sd + first, root(gp.variance * choose(least < share, share, least)));
    }
}

void log_eis(const double *mean, const double *sd, std::size_t m, double best, double *values) {
    for (std::size_t i = 0; i < m; i += LANES) {
        const Lanes s = load(sd + i);
        const Improvement h = improvement((load(mean + i) - all(best)) / s);
        store(values + i, logarithm(s * h.factor) + h.exponent);
    }
}

// The kernel's values with one point and what its slopes are made of: dk_i/dq = radial_i (q - z_i) + linear_i z_i
struct Cross {
    double *k, *radial, *linear;  // stride
};

// With |q|^2
INLINE void cross(const GP &gp, const double *q, double square, const Cross &to) {
    const double steep = -5.0 / (3.0 * gp.length * gp.length);
    for (std::size_t i = 0; i < gp.stride; i += LANES) {
        const Pairs<1> pair({q, 1, &square}, 0, points(gp), i, gp.d);
        const Lanes r = scaled_root(pair.squared[0], gp.length), e = decay(r), with = 1.0 + pair.product[0];
        store(to.k + i, (1.0 + r + r * r * all(1.0 / 3)) * e + gp.trend * (with * with));
        store(to.radial + i, steep * (1.0 + r) * e);
        store(to.linear + i, 2.0 * gp.trend * with);
    }
}

// U^-T k
INLINE void whiten(const GP &gp, const double *k, double *v) {
    const std::size_t rows = in_fours(gp.n);
    for (std::size_t i = 0; i < gp.stride; i += LANES)
        store(v + i, combine(k, 1, gp.inverse_by_column + i, gp.stride, 0, i + LANES < rows ? i + LANES : rows));
}

double log_ei(const GP &gp, const double *q, double best, double *slope, double *work) {
    const std::size_t stride = gp.stride, row = whole(gp.d), rows = in_fours(gp.n);
    const Cross at = {work, work + stride, work + 2 * stride};
    double *v = work + 3 * stride, *pull = v + stride, *padded = pull + stride;
    const double square = short_dot(q, q, gp.d);
    cross(gp, q, square, at);
    whiten(gp, at.k, v);
    const double share = prior(gp, square) - dot(v, v, stride);
    const double mean = dot(at.k, gp.alpha, stride), variance = floored(gp, share), sd = __builtin_sqrt(variance);
    const double u = (mean - best) / sd;
    const Improvement h = improvement(all(u));
    if (slope != nullptr) {
        // In the mean and in the variance, which is the prior's less |v|^2: both come from dk, with weights of their own
        const double gain = h.slope[0], by_mean = gain / sd;
        const double by_share = share > SMALLEST ? 0.5 * (1.0 - gain * u) * gp.variance / variance : 0.0;
        Lanes center = all(0.0);
        for (std::size_t j = 0; j < stride; j += LANES) {
            const Lanes w = combine(v, 1, gp.inverse + j, stride, j, rows);  // K^-1 k
            const Lanes weight = by_mean * load(gp.alpha + j) - (2.0 * by_share) * w, radial = load(at.radial + j);
            center += weight * radial;
            store(pull + j, weight * (load(at.linear + j) - radial));
        }
        const double from_center = total(center) + by_share * 4.0 * gp.trend * (1.0 + square);
        for (std::size_t c = 0; c < row; c += LANES) store(padded + c, combine(pull, 1, gp.by_row + c, row, 0, rows));
        for (std::size_t c = 0; c < gp.d; ++c) slope[c] = from_center * q[c] + padded[c];
    }
    return (logarithm(sd * h.factor) + h.exponent)[0];
}

// The posterior covariance of the points is factorized as it is, with the smallest diagonal that makes it possible.
void draw(const GP &gp, const double *q, std::size_t m, const double *normal, double *values, double *work) {
    constexpr std::size_t B = LANES;
    const std::size_t rows = whole(m);
    double *by_column = work, *norms = by_column + gp.d * rows, *v = norms + rows, *covariance = v + gp.stride * rows;
    double *factor = covariance + rows * rows, *pivots = factor + rows * rows, *k = pivots + rows;
    for (std::size_t c = 0; c < gp.d; ++c)
        for (std::size_t i = 0; i < rows; ++i) by_column[c * rows + i] = q[(i < m ? i : 0) * gp.d + c];
    square_norms(by_column, rows, gp.d, norms);
    const Points own = {by_column, rows, norms};
    for (std::size_t first = 0; first < rows; first += B) {
        const Lanes mean = crossed(gp, own, first, k);
        for (std::size_t i = first; i < first + B && i < m; ++i) values[i] = mean[i - first];
        for (std::size_t i = 0; i < gp.n; i += AT_ONCE) {
            Lanes whitened[AT_ONCE];
            whiten(gp, k, i, whitened);
            for (std::size_t r = 0; r < AT_ONCE; ++r) store(v + (i + r) * rows + first, whitened[r]);
        }
    }
    for (std::size_t i = 0; i < rows; i += PAIRS_AT_ONCE)
        for (std::size_t j = before(i); j < rows; j += B) {
            const Pairs<PAIRS_AT_ONCE> pairs(own, i, own, j, gp.d);
            for (std::size_t r = 0; r < PAIRS_AT_ONCE; ++r) store(covariance + (i + r) * rows + j, value(gp, pairs, r));
        }
    for (std::size_t i = 0; i < rows; i += B)
        for (std::size_t j = i; j < rows; j += B)
            subtract_from(covariance + i * rows + j, rows, B, v + i, rows, v + j, rows, 0, gp.n);
    for (double extra = JITTER; extra < 1.0; extra *= 100.0) {
        for (std::size_t i = 0; i < rows * rows; i += B) store(factor + i, load(covariance + i));
        for (std::size_t i = 0; i < m; ++i) factor[i * rows + i] += extra * prior(gp, norms[i]);
        if (!decompose(factor, m, rows, pivots)) continue;
        const double sd = __builtin_sqrt(gp.variance);
        for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = i; j < m; ++j)
                values[j] += sd * normal[i] * (i == j ? pivots[i] : 1.0) * factor[i * rows + j];
        return;
    }
}

void curve(const double *H, std::size_t d, const double *x, double *to) {
    const std::size_t row = whole(d);
    for (std::size_t j = 0; j < row; j += LANES) store(to + j, combine(x, 1, H + j, row, 0, row));
}

void bend(double *H, std::size_t d, const double *s, double a, const double *t) {
    const std::size_t row = whole(d);
    for (std::size_t i = 0; i < d; ++i)
        for (std::size_t j = 0; j < row; j += LANES)
            store(H + i * row + j, load(H + i * row + j) + ((a * s[i] - t[i]) * load(s + j) - s[i] * load(t + j)));
}

}  // namespace

GPFunctions JOIN(gp_, BOKE_ISA)() {
    return {prepare, median_distance, likelihood, finish, stretched, stretched_slopes, predict, log_eis, log_ei, draw, curve, bend};
}

}  // namespace boke

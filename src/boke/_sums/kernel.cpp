// Kernel sums: the compiled twin of kernel_sums in ../sums.py, which says what is computed.
//
// This file is compiled once for each instruction set. All copies do the same operations in the same order, eight
// observations at a time and without contraction to fused multiply-adds, so that they agree to the last bit. It uses
// nothing of the standard library that might be shared with code compiled for a lesser machine.
#include "kernel.hpp"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace boke {
namespace {

// The widest vectors of the instruction set; Lanes are one, two or four of them.
#if defined(__AVX512F__)
constexpr std::size_t BYTES = 64;
#elif defined(__AVX2__)
constexpr std::size_t BYTES = 32;
#else
constexpr std::size_t BYTES = 16;
#endif
constexpr std::size_t PARTS = LANES * sizeof(double) / BYTES, WIDTH = LANES / PARTS;
typedef double Doubles __attribute__((vector_size(BYTES)));
typedef long long Integers __attribute__((vector_size(BYTES)));

struct Mask {
    Integers part[PARTS];
};

struct alignas(LANES * sizeof(double)) Lanes {
    Doubles part[PARTS];
    double operator[](std::size_t i) const { return part[i / WIDTH][i % WIDTH]; }
};

#define EACH(result, expression)                                  \
    result r;                                                     \
    for (std::size_t i = 0; i < PARTS; ++i) r.part[i] = expression; \
    return r;
INLINE Lanes operator+(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] + b.part[i]) }
INLINE Lanes operator-(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] - b.part[i]) }
INLINE Lanes operator*(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] * b.part[i]) }
INLINE Lanes operator/(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] / b.part[i]) }
INLINE Mask operator<(const Lanes &a, const Lanes &b) { EACH(Mask, a.part[i] < b.part[i]) }
INLINE Mask operator!=(const Lanes &a, const Lanes &b) { EACH(Mask, a.part[i] != b.part[i]) }
INLINE Mask operator&(const Mask &a, const Mask &b) { EACH(Mask, a.part[i] & b.part[i]) }
INLINE Lanes choose(const Mask &m, const Lanes &a, const Lanes &b) { EACH(Lanes, m.part[i] ? a.part[i] : b.part[i]) }
INLINE Lanes all(double v) { EACH(Lanes, v - Doubles{}) }
INLINE Lanes times_power_of_two(const Lanes &a, const Lanes &n) {  // n in the low bits of its parts
    EACH(Lanes, (Doubles)((Integers)a.part[i] + ((Integers)n.part[i] << 52)))
}
#undef EACH
INLINE Lanes &operator+=(Lanes &a, const Lanes &b) { return a = a + b; }
INLINE Lanes &operator*=(Lanes &a, const Lanes &b) { return a = a * b; }

constexpr double INF = __builtin_huge_val();
constexpr double CUT = 104.0;  // squared distances that much beyond the nearest weigh below 3e-23: no sum notices
constexpr std::size_t TILE = 64;  // groups that stay in the first cache while all queries pass by
constexpr std::size_t EARLY = 8;  // columns after which hopeless distances are given up

INLINE Lanes load(const double *from) {
    Lanes v;
    for (std::size_t i = 0; i < PARTS; ++i) __builtin_memcpy(&v.part[i], from + i * WIDTH, BYTES);
    return v;
}

INLINE Lanes numbers() {  // 0, 1, ..., 7
    static constexpr double values[LANES] = {0, 1, 2, 3, 4, 5, 6, 7};
    return load(values);
}

INLINE bool any_within(const Lanes &a, double limit) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)a.part[0], _mm512_set1_pd(limit), _CMP_LE_OQ) != 0;
#elif defined(__AVX2__)
    const __m256d b = _mm256_set1_pd(limit), low = (__m256d)a.part[0], high = (__m256d)a.part[1];
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(low, b, _CMP_LE_OQ), _mm256_cmp_pd(high, b, _CMP_LE_OQ))) != 0;
#else
    for (std::size_t i = 0; i < LANES; ++i)
        if (a[i] <= limit) return true;
    return false;
#endif
}

INLINE double total(const Lanes &v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

INLINE double least(const Lanes &v) {
    double m = v[0];
    for (std::size_t i = 1; i < LANES; ++i) m = v[i] < m ? v[i] : m;
    return m;
}

// exp(x) for -700 <= x <= 0: x = n ln 2 + r with |r| <= ln(2) / 2, a polynomial in r, and n into the exponent.
INLINE Lanes exponential(Lanes x) {
    const Lanes magic = all(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to an integer
    Lanes shifted = x * all(1.4426950408889634) + magic;
    Lanes n = shifted - magic;
    Lanes r = (x - n * all(0.693147180369123816490)) - n * all(1.90821492927058770002e-10);
    const Lanes r2 = r * r, r4 = r2 * r2;
    // 1 + r + r^2/2! + ... + r^13/13!, in pairs (Estrin), for independent operations
    Lanes a = all(1.0) + r;
    Lanes b = all(1.0 / 2) + r * all(1.0 / 6);
    Lanes c = all(1.0 / 24) + r * all(1.0 / 120);
    Lanes d = all(1.0 / 720) + r * all(1.0 / 5040);
    Lanes e = all(1.0 / 40320) + r * all(1.0 / 362880);
    Lanes f = all(1.0 / 3628800) + r * all(1.0 / 39916800);
    Lanes g = all(1.0 / 479001600) + r * all(1.0 / 6227020800);
    Lanes high = (e + r2 * f) + r4 * g;
    Lanes low = (a + r2 * b) + r4 * (c + r2 * d);
    Lanes value = low + (r4 * r4) * high;
    return times_power_of_two(value, shifted);
}

INLINE double exponential(double x) { return x < -700.0 ? 0.0 : exponential(all(x))[0]; }

INLINE Lanes root(const Lanes &s) {
    double values[LANES];
    for (std::size_t i = 0; i < LANES; ++i) values[i] = __builtin_sqrt(s[i]);
    return load(values);
}

// Squared distances of one query to a group; lanes beyond `limit` may be given up and are then infinite.
INLINE Lanes distances(const Data &data, const double *q, const double *codes, std::size_t g, double limit) {
    const double *z = data.z + g * data.p * LANES;
    Lanes s = all(0.0);
    std::size_t k = 0;
    while (k + EARLY < data.p) {
        for (const std::size_t stop = k + EARLY; k < stop; ++k) {
            Lanes away = all(q[k]) - load(z + k * LANES);
            s += away * away;
        }
        if (!any_within(s, limit)) return all(INF);
    }
    for (; k < data.p; ++k) {
        Lanes away = all(q[k]) - load(z + k * LANES);
        s += away * away;
    }
    if (data.kernel == GAUSSIAN)
        for (std::size_t j = 0; j < data.c; ++j) {
            Mask unlike = load(data.codes + (g * data.c + j) * LANES) != all(codes[j]);
            s += choose(unlike, all(data.penalty[j]), all(0.0));
        }
    const std::size_t first = g * LANES;
    if (first + LANES > data.t) s = choose(numbers() < all(static_cast<double>(data.t - first)), s, all(INF));
    return s;
}

INLINE void skip(Lanes &s, std::size_t g, std::ptrdiff_t own) {
    if (own >= 0 && static_cast<std::size_t>(own) / LANES == g)
        s = choose(numbers() != all(static_cast<double>(static_cast<std::size_t>(own) % LANES)), s, all(INF));
}

// exp(-(s - shift) / 2), zero beyond CUT
INLINE Lanes gaussian(Lanes s, double shift) {
    Lanes beyond = s - all(shift);
    Mask inside = beyond < all(CUT);
    return choose(inside, exponential(choose(inside, beyond, all(0.0)) * all(-0.5)), all(0.0));
}

struct Profile {
    Lanes value, slope;  // Psi and 2 dPsi/ds
};

INLINE Profile compact(const Data &data, Lanes s, const double *codes, std::size_t g) {
    Profile p;
    const Lanes zero = all(0.0), one = all(1.0);
    const Mask inside = s < one;
    const Lanes left = choose(inside, one - s, zero);
    if (data.kernel == TRIANGULAR) {
        const Lanes r = root(choose(inside, s, one));
        p.value = choose(inside, one - r, zero);
        p.slope = choose(inside & (zero < s), all(-1.0) / r, zero);
    } else if (data.kernel == EPANECHNIKOV) {
        p.value = left;
        p.slope = choose(inside, all(-2.0), zero);
    } else {
        p.value = left * left;
        p.slope = all(-4.0) * left;
    }
    for (std::size_t j = 0; j < data.c; ++j) {
        const double v = data.penalty[j];
        double unlike = v < 1.0 ? 1.0 - (data.kernel == TRIANGULAR ? __builtin_sqrt(v) : v) : 0.0;
        if (data.kernel == QUARTIC) unlike *= unlike;
        const Lanes factor = choose(load(data.codes + (g * data.c + j) * LANES) != all(codes[j]), all(unlike), one);
        p.value *= factor;
        p.slope *= factor;
    }
    return p;
}

struct Running {
    double shift;  // smallest squared distance so far
    Lanes W, S;    // relative to exp(-shift / 2)
};

// One query, one tile: add its observations to the running sums.
INLINE void add(const Data &data, const double *q, const double *codes, std::ptrdiff_t own, std::size_t first,
                std::size_t last, Running &sum) {
    if (data.kernel != GAUSSIAN) {
        for (std::size_t g = first; g < last; ++g) {
            Lanes s = distances(data, q, codes, g, 1.0);
            skip(s, g, own);
            if (!any_within(s, 1.0)) continue;
            const Lanes k = compact(data, s, codes, g).value * load(data.w + g * LANES);
            sum.W += k;
            sum.S += k * load(data.y + g * LANES);
        }
        return;
    }
    Lanes s[TILE];
    Lanes nearest = all(INF);
    for (std::size_t g = first; g < last; ++g) {
        s[g - first] = distances(data, q, codes, g, sum.shift + CUT);
        skip(s[g - first], g, own);
        nearest = choose(s[g - first] < nearest, s[g - first], nearest);
    }
    const double shift = least(nearest);
    if (shift < sum.shift) {
        const double shrink = exponential(0.5 * (shift - sum.shift));  // 0 at first, when sum.shift is infinite
        sum.W *= all(shrink);
        sum.S *= all(shrink);
        sum.shift = shift;
    }
    for (std::size_t g = first; g < last; ++g) {
        if (!any_within(s[g - first], sum.shift + CUT)) continue;
        const Lanes k = gaussian(s[g - first], sum.shift) * load(data.w + g * LANES);
        sum.W += k;
        sum.S += k * load(data.y + g * LANES);
    }
}

// Gradients of one query, given its shift and mean: sums of (dk/dz) and (dk/dz)(y - mean) over its neighbours.
INLINE void slopes(const Data &data, const double *q, const double *codes, std::ptrdiff_t own, double shift, double W,
                   double mean, double *dW, double *dmean, Lanes *A) {
    Lanes *B = A + data.p;
    for (std::size_t k = 0; k < data.p; ++k) A[k] = B[k] = all(0.0);
    const double limit = data.kernel == GAUSSIAN ? shift + CUT : 1.0;
    for (std::size_t g = 0; g < data.groups; ++g) {
        Lanes s = distances(data, q, codes, g, limit);
        skip(s, g, own);
        if (!any_within(s, limit)) continue;
        const Lanes slope = data.kernel == GAUSSIAN ? all(-1.0) * gaussian(s, shift) : compact(data, s, codes, g).slope;
        const Lanes a = slope * load(data.w + g * LANES), b = a * (load(data.y + g * LANES) - all(mean));
        for (std::size_t k = 0; k < data.p; ++k) {
            const Lanes away = all(q[k]) - load(data.z + (g * data.p + k) * LANES);
            A[k] += a * away;
            B[k] += b * away;
        }
    }
    for (std::size_t k = 0; k < data.p; ++k) {
        dW[k] = total(A[k]);
        dmean[k] = W > 0.0 ? total(B[k]) / W : 0.0;
    }
}

INLINE std::ptrdiff_t self(const Queries &queries, std::size_t i) {
    return queries.own < 0 ? -1 : queries.own + static_cast<std::ptrdiff_t>(i);
}

}  // namespace

void JOIN(evaluate_, BOKE_ISA)(const Data &data, const Queries &queries) {
    const std::size_t p = data.p, c = data.c;
    constexpr std::size_t BATCH = 64;  // queries whose running sums are kept at hand
    Running sums[BATCH];
    for (std::size_t from = 0; from < queries.n; from += BATCH) {
        const std::size_t n = queries.n - from < BATCH ? queries.n - from : BATCH;
        for (std::size_t i = 0; i < n; ++i) {
            sums[i].shift = data.kernel == GAUSSIAN ? INF : 0.0;
            sums[i].W = sums[i].S = all(0.0);
        }
        for (std::size_t first = 0; first < data.groups; first += TILE) {
            const std::size_t last = first + TILE < data.groups ? first + TILE : data.groups;
            for (std::size_t i = 0; i < n; ++i)
                add(data, queries.z + (from + i) * p, queries.codes + (from + i) * c, self(queries, from + i), first,
                    last, sums[i]);
        }
        for (std::size_t i = 0; i < n; ++i) {
            queries.W[from + i] = total(sums[i].W);
            queries.S[from + i] = total(sums[i].S);
            queries.shift[from + i] = sums[i].shift;
        }
    }
    for (std::size_t i = 0; i < queries.n; ++i) {
        const double W = queries.W[i], shrink = exponential(-0.5 * queries.shift[i]);
        queries.mean[i] = W > 0.0 ? queries.S[i] / W : 0.0;
        queries.log_W[i] = W > 0.0 ? __builtin_log(W) - 0.5 * queries.shift[i] : -INF;
        if (queries.dW != nullptr) {
            double *dW = queries.dW + i * p, *dlog_W = queries.dlog_W + i * p;
            slopes(data, queries.z + i * p, queries.codes + i * c, self(queries, i), queries.shift[i], W,
                   queries.mean[i], dW, queries.dmean + i * p, static_cast<Lanes *>(queries.scratch));
            for (std::size_t k = 0; k < p; ++k) {
                dlog_W[k] = W > 0.0 ? dW[k] / W : 0.0;
                dW[k] *= shrink;
            }
        }
        queries.W[i] *= shrink;
        queries.S[i] *= shrink;
    }
}

}  // namespace boke

// Kernel sums: the compiled twin of kernel_sums in ../sums.py, which says what is computed.
//
// This file is compiled once for each instruction set. All copies do the same operations in the same order, eight
// observations at a time, so that they agree to the last bit. It uses nothing of the standard library that might be shared
// with code compiled for a lesser machine.
#include "kernel.hpp"

namespace boke {
namespace {

constexpr double CUT = 104.0;  // squared distances that much beyond the nearest weigh below 3e-23: no sum notices
constexpr float ROUGH_CUT = 48.0f;  // the same in single precision: below 4e-11
constexpr std::size_t AT_ONCE = PARTS == 1 ? 4 : 2;  // queries, and as many groups, whose distances are in registers at once
constexpr std::size_t TILE = 128;  // groups that stay in the second cache while all queries pass by, at most,
constexpr std::size_t AT_HAND = 512 << 10;  // and their bytes
constexpr std::size_t SOON = 5;   // columns after which hopeless distances are given up,
constexpr std::size_t EARLY = 24; // and again after so many more
constexpr std::size_t AGAIN = 8;  // where none were, it is tried with one block in so many
constexpr std::size_t GROUPS_SOON = 4;  // groups of columns after which a hopeless block of a coarse copy is given up

// Add to squared distances to a group what unlike categories do, and let its empty places be far away.
INLINE void mend(const Data &data, const double *codes, std::size_t g, Lanes &s) {
    for (std::size_t c = 0; data.kernel == GAUSSIAN && c < data.c; ++c) {
        const Mask unlike = load(data.codes + (g * data.c + c) * LANES) != all(codes[c]);
        s += choose(unlike, all(data.penalty[c]), all(0.0));
    }
    if ((g + 1) * LANES > data.t) s = choose(numbers() < all(static_cast<double>(data.t - g * LANES)), s, all(INF));
}

template <std::size_t N>
INLINE Lanes nearest_of(const Lanes (&s)[N]) {
    Lanes nearest = s[0];
    UNROLL for (std::size_t i = 1; i < N; ++i) nearest = smaller(s[i], nearest);
    return nearest;
}

// Squared distances (Q, N) of Q queries (., p) with their codes to N groups; their sums do not wait for each other. Those of a
// query that are beyond its limit may be given up, all of them at once, and are only known to be beyond it.
template <std::size_t Q, std::size_t N>
INLINE void distances(const Data &data, const double *q, const double *codes, std::size_t first, const double *limits,
                      Lanes (&sum)[Q][N]) {
    UNROLL for (std::size_t j = 0; j < Q; ++j)
        UNROLL for (std::size_t i = 0; i < N; ++i) sum[j][i] = all(0.0);
    const double *z = data.z + first * data.p * LANES;
    auto add = [&](std::size_t from, std::size_t until) {
        for (std::size_t k = from; k < until; ++k)
            UNROLL for (std::size_t i = 0; i < N; ++i) {
                const Lanes there = load(z + (i * data.p + k) * LANES);
                UNROLL for (std::size_t j = 0; j < Q; ++j) {
                    const Lanes away = all(q[j * data.p + k]) - there;
                    sum[j][i] += away * away;
                }
            }
    };
    bool limited = true, within = true;
    for (std::size_t j = 0; j < Q; ++j) limited = limited && limits[j] < INF;
    std::size_t done = 0;
    for (std::size_t next = SOON; limited && within && next < data.p; next += EARLY) {
        add(done, next);
        done = next;
        within = false;
        UNROLL for (std::size_t j = 0; j < Q; ++j) within = within || any_within(nearest_of(sum[j]), limits[j]);
    }
    if (within) add(done, data.p);
    const bool last = (first + N) * LANES > data.t;
    if (last || (data.kernel == GAUSSIAN && data.c > 0))
        UNROLL for (std::size_t j = 0; j < Q; ++j)
            UNROLL for (std::size_t i = 0; i < N; ++i) mend(data, codes + j * data.c, first + i, sum[j][i]);
}

INLINE void skip(Lanes &s, std::size_t g, std::ptrdiff_t own) {
    if (own >= 0 && static_cast<std::size_t>(own) / LANES == g)
        s = choose(numbers() != all(static_cast<double>(static_cast<std::size_t>(own) % LANES)), s, all(INF));
}

// exp(-(s - shift) / 2), zero beyond CUT
INLINE Lanes gaussian(Lanes s, double shift) {
    const Lanes beyond = s - all(shift);
    return choose(beyond < all(CUT), half_exponential(beyond), all(0.0));
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

template <std::size_t N>
struct Number {
    static constexpr std::size_t value = N;
};

struct Running {
    double shift;  // smallest squared distance so far
    Lanes W, S;    // relative to exp(-shift / 2)
};

// Add N groups of observations, one or two, at these squared distances to the running sums of a query with the gaussian kernel.
template <std::size_t N>
INLINE void add(const Data &data, std::size_t first, const Lanes *s, Running &sum) {
    const Lanes nearest = smaller(s[0], s[N - 1]);
    if (any_below(nearest, sum.shift)) {
        const double shift = least(nearest);
        const Lanes shrink = all(exponential(0.5 * (shift - sum.shift)));  // 0 at first, when the shift is infinite
        sum.shift = shift;
        sum.W *= shrink;
        sum.S *= shrink;
    }
    UNROLL for (std::size_t i = 0; i < N; ++i) {
        const Lanes k = gaussian(s[i], sum.shift) * load(data.w + (first + i) * LANES);
        sum.W += k;
        sum.S += k * load(data.y + (first + i) * LANES);
    }
}

// The same with a compact one.
template <std::size_t N>
INLINE void add_compact(const Data &data, const double *codes, std::size_t first, const Lanes (&s)[N], Running &sum) {
    for (std::size_t i = 0; i < N; ++i) {
        if (!any_within(s[i], 1.0)) continue;
        const Lanes k = compact(data, s[i], codes, first + i).value * load(data.w + (first + i) * LANES);
        sum.W += k;
        sum.S += k * load(data.y + (first + i) * LANES);
    }
}

// Add the groups from `first` to `last` to the running sums of Q queries, N groups at a time; returns where less are left.
template <bool COMPACT, std::size_t N, std::size_t Q>
INLINE std::size_t add(const Data &data, const double *q, const double *codes, std::ptrdiff_t own, std::size_t first,
                       std::size_t last, Running *sums) {
    constexpr std::size_t PAIR = N < 2 ? N : 2;  // a new shift makes all sums round: always after as many
    Running here[Q];  // in registers meanwhile
    UNROLL for (std::size_t j = 0; j < Q; ++j) here[j] = sums[j];
    bool hopeless = true;  // as long as distances are, the next ones may be given up early as well
    for (std::size_t block = 0; first + N <= last; first += N, ++block) {
        Lanes s[Q][N];
        double limits[Q], give_up[Q];
        UNROLL for (std::size_t j = 0; j < Q; ++j) {
            limits[j] = COMPACT ? 1.0 : here[j].shift + CUT;
            give_up[j] = hopeless || block % AGAIN == 0 ? limits[j] : INF;
        }
        distances(data, q, codes, first, give_up, s);
        if (own >= 0)
            UNROLL for (std::size_t j = 0; j < Q; ++j)
                UNROLL for (std::size_t i = 0; i < N; ++i) skip(s[j][i], first + i, own + static_cast<std::ptrdiff_t>(j));
        hopeless = true;
        UNROLL for (std::size_t j = 0; j < Q; ++j) {
            if (!any_within(nearest_of(s[j]), limits[j])) continue;
            hopeless = false;
            if (COMPACT) add_compact(data, codes + j * data.c, first, s[j], here[j]);
            else UNROLL for (std::size_t i = 0; i < N; i += PAIR) add<PAIR>(data, first + i, s[j] + i, here[j]);
        }
    }
    UNROLL for (std::size_t j = 0; j < Q; ++j) sums[j] = here[j];
    return first;
}

// Gradients of one query, given its shift and mean: sums of (dk/dz) and (dk/dz)(y - mean) over its neighbours.
INLINE void slopes(const Data &data, const double *q, const double *codes, std::ptrdiff_t own, double shift, double W,
                   double mean, double *dW, double *dmean, Lanes *A) {
    Lanes *B = A + data.p;
    for (std::size_t k = 0; k < data.p; ++k) A[k] = B[k] = all(0.0);
    const double limit = data.kernel == GAUSSIAN ? shift + CUT : 1.0;
    for (std::size_t g = 0; g < data.groups; ++g) {
        Lanes sum[1][1], &s = sum[0][0];
        distances(data, q, codes, g, &limit, sum);
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

// Kernel values of one query, up to exp(-shift / 2), of the groups that count, and the numbers of these groups.
struct Near {
    std::size_t n;
    double shift, *values, *groups;  // n * LANES, n
};

// `nearest_within`: the nearest observation is not farther, squared.
INLINE Near neighbours(const Data &data, const double *q, double nearest_within, double *work) {
    Near near{0, INF, work, work + data.groups * LANES};
    const double limit = nearest_within + CUT;
    Lanes nearest = all(INF);
    auto measure = [&](std::size_t first, auto some) {
        constexpr std::size_t N = decltype(some)::value;
        Lanes s[1][N];
        distances(data, q, nullptr, first, &limit, s);
        for (std::size_t i = 0; i < N; ++i) {
            nearest = choose(s[0][i] < nearest, s[0][i], nearest);
            store(near.values + (first + i) * LANES, s[0][i]);
        }
    };
    std::size_t first = 0;
    for (; first + 4 <= data.groups; first += 4) measure(first, Number<4>());
    for (; first < data.groups; ++first) measure(first, Number<1>());
    near.shift = least(nearest);
    for (std::size_t g = 0; g < data.groups; ++g) {
        const Lanes s = load(near.values + g * LANES);
        if (!any_within(s, near.shift + CUT)) continue;
        store(near.values + near.n * LANES, gaussian(s, near.shift) * load(data.w + g * LANES));
        near.groups[near.n++] = static_cast<double>(g);
    }
    return near;
}

// slope += sum of c_i (q - z_i), with c_i where the kernel values were, for N columns at once.
template <std::size_t N>
INLINE void add_slopes(const Data &data, const double *q, const Near &near, std::size_t from, double *slope) {
    Lanes sum[N];
    for (std::size_t k = 0; k < N; ++k) sum[k] = all(0.0);
    for (std::size_t j = 0; j < near.n; ++j) {
        const double *z = data.z + (static_cast<std::size_t>(near.groups[j]) * data.p + from) * LANES;
        const Lanes c = load(near.values + j * LANES);
        for (std::size_t k = 0; k < N; ++k) sum[k] += c * (all(q[from + k]) - load(z + k * LANES));
    }
    for (std::size_t k = 0; k < N; ++k) slope[from + k] += total(sum[k]);
}

INLINE void add_slopes(const Data &data, const double *q, const Near &near, double *slope) {
    std::size_t k = 0;
    for (; k + 4 <= data.p; k += 4) add_slopes<4>(data, q, near, k, slope);
    if (k + 2 <= data.p) add_slopes<2>(data, q, near, k, slope), k += 2;
    if (k < data.p) add_slopes<1>(data, q, near, k, slope);
}

// W and S of sixteen queries, up to exp(-shift / 2).
struct RoughSums {
    Singles W, S, shift;
};

// Squared distances of sixteen queries from N observations, one after the other, to s; beyond `limit` see above.
template <std::size_t N>
INLINE void rough_distances(const float *rows, std::size_t p, const Singles *q, float limit, Singles *s) {
    Singles sum[N];
    for (std::size_t i = 0; i < N; ++i) sum[i] = singles(0.0f);
    auto add = [&](std::size_t k) {
        UNROLL for (std::size_t i = 0; i < N; ++i) {
            const Singles away = q[k] - singles(rows[i * (p + 1) + k]);
            sum[i] = sum[i] + away * away;
        }
    };
    std::size_t k = 0;
    bool within = true;
    if (limit < __builtin_huge_valf() && p > SOON) {
        for (; k < SOON; ++k) add(k);
        within = false;
        for (std::size_t i = 0; i < N; ++i) within = within || any_within(sum[i], limit);
    }
    if (within)
        for (; k < p; ++k) add(k);
    for (std::size_t i = 0; i < N; ++i) s[i] = sum[i];
}

INLINE RoughSums rough_sums(const Rough &data, const Singles *q, float limit, Singles *s) {
    const std::size_t p = data.p;
    std::size_t i = 0;
    for (; i + 4 <= data.t; i += 4) rough_distances<4>(data.rows + i * (p + 1), p, q, limit, s + i);
    for (; i < data.t; ++i) rough_distances<1>(data.rows + i * (p + 1), p, q, limit, s + i);
    Singles W = singles(0.0f), S = singles(0.0f), shift = singles(__builtin_huge_valf());  // in registers, not in the result
    for (i = 0; i < data.t; ++i) shift = smaller(s[i], shift);
    for (i = 0; i < data.t; ++i) {
        const Singles beyond = s[i] - shift;
        if (!any_within(beyond, ROUGH_CUT)) continue;
        const Singles k = half_exponential(beyond);
        W = W + k;
        S = S + k * singles(data.rows[i * (p + 1) + p]);
    }
    return {W, S, shift};
}

template <bool COMPACT>
INLINE void sum_up(const Data &data, const Queries &queries) {
    const std::size_t p = data.p, c = data.c;
    constexpr std::size_t BATCH = 64;  // queries whose running sums are kept at hand
    const std::size_t fit = AT_HAND / ((p + 1) * LANES * sizeof(double)) / 4 * 4, tile = fit < 4 ? 4 : fit < TILE ? fit : TILE;
    Running sums[BATCH];
    for (std::size_t from = 0; from < queries.n; from += BATCH) {
        const std::size_t n = queries.n - from < BATCH ? queries.n - from : BATCH;
        for (std::size_t i = 0; i < n; ++i) sums[i] = {COMPACT ? 0.0 : INF, all(0.0), all(0.0)};
        for (std::size_t first = 0; first < data.groups; first += tile) {
            const std::size_t last = first + tile < data.groups ? first + tile : data.groups;
            auto add_to = [&](std::size_t i, auto some) {
                constexpr std::size_t Q = decltype(some)::value;
                const double *q = queries.z + (from + i) * p, *codes = queries.codes + (from + i) * c;
                const std::ptrdiff_t own = self(queries, from + i);
                std::size_t left = add<COMPACT, AT_ONCE, Q>(data, q, codes, own, first, last, sums + i);
                if (left + 2 <= last) left = add<COMPACT, 2, Q>(data, q, codes, own, left, last, sums + i);
                if (left < last) add<COMPACT, 1, Q>(data, q, codes, own, left, last, sums + i);
            };
            std::size_t i = 0;
            for (; i + AT_ONCE <= n; i += AT_ONCE) add_to(i, Number<AT_ONCE>());
            for (; i < n; ++i) add_to(i, Number<1>());
        }
        for (std::size_t i = 0; i < n; ++i) {
            queries.W[from + i] = total(sums[i].W);
            queries.S[from + i] = total(sums[i].S);
            queries.shift[from + i] = sums[i].shift;
        }
    }
}

}  // namespace

void JOIN(evaluate_, BOKE_ISA)(const Data &data, const Queries &queries) {
    const std::size_t p = data.p, c = data.c;
    if (data.kernel == GAUSSIAN) sum_up<false>(data, queries);
    else sum_up<true>(data, queries);
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

double JOIN(rise_, BOKE_ISA)(const Data &seen, const Data *silent, const double *q, double beta, double rho, double *nearest,
                             double *slope, double *work) {
    const Near near = neighbours(seen, q, *nearest, work);
    *nearest = near.shift;
    Lanes sum_W = all(0.0), sum_S = all(0.0);
    for (std::size_t j = 0; j < near.n; ++j) {
        const Lanes k = load(near.values + j * LANES);
        sum_W += k;
        sum_S += k * load(seen.y + static_cast<std::size_t>(near.groups[j]) * LANES);
    }
    const double W = total(sum_W), mean = total(sum_S) / W;
    double value = mean, fall = 0.0;
    for (std::size_t k = 0; k < seen.p; ++k) slope[k] = 0.0;
    if (beta != 0.0) {
        const double shrink = exponential(-0.5 * near.shift);
        double density = W * shrink;
        Near hush{0, INF, nullptr, nullptr};
        if (silent) {
            hush = neighbours(*silent, q, INF, work + rise_room(seen.groups));
            Lanes sum = all(0.0);
            for (std::size_t j = 0; j < hush.n; ++j) sum += load(hush.values + j * LANES);
            density += total(sum) * exponential(-0.5 * hush.shift);
        }
        const double sigma = 1.0 / __builtin_sqrt(density + rho);
        value += beta * sigma;
        fall = 0.5 * beta * sigma * sigma * sigma;
        if (silent) {
            const Lanes c = all(fall * exponential(-0.5 * hush.shift));
            for (std::size_t j = 0; j < hush.n; ++j) store(hush.values + j * LANES, c * load(hush.values + j * LANES));
            add_slopes(*silent, q, hush, slope);
        }
        fall *= shrink;
    }
    // dm = -sum k (q - z) (y - m) / W and dsigma = -sigma^3 / 2 dW
    for (std::size_t j = 0; j < near.n; ++j) {
        const Lanes y = load(seen.y + static_cast<std::size_t>(near.groups[j]) * LANES);
        const Lanes c = all(fall) - (y - all(mean)) * all(1.0 / W);
        store(near.values + j * LANES, c * load(near.values + j * LANES));
    }
    add_slopes(seen, q, near, slope);
    return value;
}

void JOIN(screen_, BOKE_ISA)(const Rough &seen, const Rough &silent, const double *x, const double *nearest, std::size_t n,
                             const double *bandwidth, double beta, double rho, double *values, void *work) {
    constexpr float UNKNOWN = __builtin_huge_valf();
    Singles *q = static_cast<Singles *>(work), *s = q + seen.p;
    for (std::size_t first = 0; first < n; first += SINGLES) {
        const std::size_t some = n - first < SINGLES ? n - first : SINGLES;
        for (std::size_t k = 0; k < seen.p; ++k) {
            float column[SINGLES];
            for (std::size_t l = 0; l < SINGLES; ++l)
                column[l] = static_cast<float>(x[(first + (l < some ? l : 0)) * seen.p + k] / bandwidth[k]);
            __builtin_memcpy(&q[k], column, sizeof column);
        }
        double within = 0.0;
        for (std::size_t l = 0; l < some; ++l) within = nearest[first + l] > within ? nearest[first + l] : within;
        const float limit = within < INF ? static_cast<float>(1.01 * within + 1.0) + ROUGH_CUT : UNKNOWN;  // rounding included
        const RoughSums sums = rough_sums(seen, q, limit, s);
        Singles density = sums.W * half_exponential(sums.shift);
        if (silent.t) {
            const RoughSums hush = rough_sums(silent, q, UNKNOWN, s);
            density = density + hush.W * half_exponential(hush.shift);
        }
        for (std::size_t l = 0; l < some; ++l)
            values[first + l] = seen.middle + static_cast<double>(sums.S[l]) / sums.W[l] + beta / __builtin_sqrt(density[l] + rho);
    }
}

// Eight points at a time: every operation is a vector operation over them.
void JOIN(distances_, BOKE_ISA)(const double *x, std::size_t n, const double *others, std::size_t m, std::size_t d, bool largest,
                                double *to, double *work) {
    for (std::size_t first = 0; first < n; first += LANES) {
        const std::size_t some = n - first < LANES ? n - first : LANES;
        for (std::size_t c = 0; c < d; ++c)
            for (std::size_t l = 0; l < LANES; ++l) work[c * LANES + l] = x[(first + (l < some ? l : 0)) * d + c];
        for (std::size_t i = 0; i < m; ++i) {
            Lanes s = all(0.0);
            for (std::size_t c = 0; c < d; ++c) {
                const Lanes away = load(work + c * LANES) - all(others[i * d + c]);
                if (largest) {
                    const Lanes size = choose(away < all(0.0), all(-1.0) * away, away);
                    s = choose(s < size, size, s);
                } else {
                    s += Lanes(away * away);  // rounded as in the definition, and by whoever else measures a distance
                }
            }
            for (std::size_t l = 0; l < some; ++l) to[(first + l) * m + i] = s[l];
        }
    }
}

void JOIN(exponentials_, BOKE_ISA)(double *x, std::size_t n) {
    for (std::size_t i = 0; i < n; i += LANES) store(x + i, exponential(load(x + i)));
}

namespace {

// Ask for what a group of columns of a block will find so many bytes further on, if any.
INLINE void fetch(const unsigned char *codes, std::size_t ahead) {
    for (std::size_t line = 0; ahead && line < BLOCK * TOGETHER; line += 64) __builtin_prefetch(codes + ahead + line);
}

#if defined(__AVX2__)
// The widest vectors of bytes with products that are added in pairs, and pairs of these again: four columns become one.
#if defined(__AVX512BW__)
typedef __m512i Wide;
#define WIDE(name) _mm512_##name
INLINE bool any_at_most(Wide a, int limit) { return _mm512_cmple_epi32_mask(a, _mm512_set1_epi32(limit)) != 0; }
#else
typedef __m256i Wide;
#define WIDE(name) _mm256_##name
INLINE bool any_at_most(Wide a, int limit) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, _mm256_set1_epi32(limit))) != -1;
}
#endif
INLINE Wide squares_of_four(Wide point, Wide at, Wide which) {
    const Wide step = WIDE(abs_epi8)(WIDE(sub_epi8)(point, at)) & which;
    return WIDE(madd_epi16)(WIDE(maddubs_epi16)(step, step), WIDE(set1_epi16)(1));
}
#endif

}  // namespace

bool JOIN(squares_, BOKE_ISA)(const unsigned char *codes, const unsigned char *query, const unsigned char *mask, std::size_t groups,
                             int limit, [[maybe_unused]] std::size_t ahead, int *away) {
    bool within = true;
#if defined(__AVX2__)
    constexpr std::size_t VECTORS = BLOCK * TOGETHER / sizeof(Wide);
    Wide sum[VECTORS];
    for (std::size_t v = 0; v < VECTORS; ++v) sum[v] = WIDE(set1_epi32)(0);
    for (std::size_t g = 0; g < groups && within;) {
        const std::size_t next = g == 0 && GROUPS_SOON < groups ? GROUPS_SOON : groups;
        for (; g < next; ++g) {
            int four, counted;
            __builtin_memcpy(&four, query + g * TOGETHER, sizeof four);
            __builtin_memcpy(&counted, mask + g * TOGETHER, sizeof counted);
            const Wide at = WIDE(set1_epi32)(four), which = WIDE(set1_epi32)(counted);
            fetch(codes + g * BLOCK * TOGETHER, ahead);
            UNROLL for (std::size_t v = 0; v < VECTORS; ++v) {
                Wide point;
                __builtin_memcpy(&point, codes + (g * VECTORS + v) * sizeof(Wide), sizeof(Wide));
                sum[v] = WIDE(add_epi32)(sum[v], squares_of_four(point, at, which));
            }
        }
        within = false;
        for (std::size_t v = 0; v < VECTORS; ++v) within = within || any_at_most(sum[v], limit);
    }
    __builtin_memcpy(away, sum, sizeof sum);
#else
    for (std::size_t i = 0; i < BLOCK; ++i) away[i] = 0;
    for (std::size_t g = 0; g < groups && within;) {
        const std::size_t next = g == 0 && GROUPS_SOON < groups ? GROUPS_SOON : groups;
        for (; g < next; ++g)
            for (std::size_t i = 0; i < BLOCK; ++i)
                for (std::size_t j = 0; j < TOGETHER; ++j) {
                    const short step = static_cast<short>(codes[(g * BLOCK + i) * TOGETHER + j] - query[g * TOGETHER + j]);
                    away[i] += mask[g * TOGETHER + j] ? step * step : 0;
                }
        int near = 0;
        for (std::size_t i = 0; i < BLOCK; ++i) near |= away[i] <= limit;
        within = near != 0;
    }
#endif
    return within;
}

bool JOIN(farthest_, BOKE_ISA)(const unsigned char *codes, const unsigned char *query, const unsigned char *mask, std::size_t groups,
                              int limit, std::size_t ahead, int *away) {
    constexpr std::size_t WIDE = 32, VECTORS = BLOCK * TOGETHER / WIDE;
    typedef unsigned char Codes __attribute__((vector_size(WIDE)));
    typedef unsigned Points __attribute__((vector_size(WIDE)));  // of four codes each
    typedef int Distances __attribute__((vector_size(WIDE)));
    auto repeated = [](const unsigned char *from) {
        unsigned four;
        __builtin_memcpy(&four, from, sizeof four);
        return (Codes)(four - Points{});
    };
    auto larger = [](const Codes &a, const Codes &b) { return a > b ? a : b; };
    Codes most[VECTORS] = {};
    for (std::size_t g = 0;;) {
        const std::size_t next = g == 0 && GROUPS_SOON < groups ? GROUPS_SOON : groups;
        for (; g < next; ++g) {
            const Codes at = repeated(query + g * TOGETHER), which = repeated(mask + g * TOGETHER);
            fetch(codes + g * BLOCK * TOGETHER, ahead);
            UNROLL for (std::size_t v = 0; v < VECTORS; ++v) {
                Codes point;
                __builtin_memcpy(&point, codes + (g * VECTORS + v) * WIDE, WIDE);
                most[v] = larger(most[v], (larger(point, at) - (point > at ? at : point)) & which);
            }
        }
        Distances within = {};
        UNROLL for (std::size_t v = 0; v < VECTORS; ++v) {
            Codes m = larger(most[v], (Codes)((Points)most[v] >> 16));
            m = larger(m, (Codes)((Points)m >> 8));
            const Distances distance = (Distances)((Points)m & 255);
            __builtin_memcpy(away + v * (BLOCK / VECTORS), &distance, WIDE);
            within |= distance <= limit;
        }
        bool any = false;
        for (std::size_t i = 0; i < BLOCK / VECTORS; ++i) any = any || within[i];
        if (g == groups || !any) return any;
    }
}

}  // namespace boke

// The expected improvement's shape, h(u) = u Phi(u) + phi(u), without underflow, eight numbers at a time.
//
// With x = |u|, Mills' ratio M(x) = Phi(-x) / phi(x) and g(x) = 1 - x M(x) it is phi(x) g(x) for negative u, and u more for
// positive. (1 + x)^2 g and (1 + x) M are smooth up to infinity in t = (x - 5) / (x + 5): polynomials, from Chebyshev
// series, right to a few units of the last place.
#pragma once
#include "lanes.hpp"

#ifdef BOKE_ISA

namespace boke {
namespace {

constexpr double LOG_SQRT_2PI = 0.918938533204672742;

constexpr double SHAPE[] = {
    1.2945411512431624,      -0.36872296454501824,    -0.028030699627535318,   0.26116700784716246,
    -0.2735482037622689,     0.15402166231123107,     -0.029310982484216187,   -0.03186187270803922,
    0.03474622704411568,     -0.016131705895756486,   0.0023283136856683535,   0.0015767756175029339,
    -0.000852726679260871,   -3.5818170996182e-05,    0.00014692756303243338,  -1.7203931061125266e-05,
    -2.3355088213939513e-05, 4.971636920474042e-06,   3.9473272317334125e-06,  -9.985214771598005e-07,
    -6.968399656044212e-07,  1.6601511154204576e-07,  1.073022959586397e-07,   -2.1184998715660543e-08,
    -9.684045797029939e-09,  1.5294186063516205e-09};

constexpr double MILLS[] = {
    1.1568486282918946,      -0.22948753825211315,   0.07778159886873769,     0.0250721793016388,
    -0.0661776007790963,     0.0615050458401865,     -0.03802659218584139,    0.01634823128102938,
    -0.004201290329187307,   1.9530638370790786e-05, 0.00045704392357953655,  -0.0001343742785571135,
    -2.480583845192319e-05,  2.270961270923768e-05,  -1.7633239265736746e-07, -3.277287633208865e-06,
    3.2054316652589574e-07,  4.91996233147834e-07,   -6.588974491108954e-08,  -7.758520236786343e-08,
    9.092476134019147e-09,   1.1032071151574336e-08, -7.073898575561589e-10,  -9.564832934712551e-10};

INLINE Lanes wide(double v) { return all(v); }
INLINE Lanes wide(const Lanes &v) { return v; }

// c[0] + c[1] t + c[2] t^2 + ..., in pairs (Estrin), for independent operations
template <typename Number, std::size_t N>
INLINE Lanes polynomial(const Number (&c)[N], const Lanes &t) {
    if constexpr (N == 1) return c[0];
    else {
        Lanes pairs[(N + 1) / 2];
        UNROLL for (std::size_t i = 0; i < N / 2; ++i) pairs[i] = wide(c[2 * i]) + t * wide(c[2 * i + 1]);
        if constexpr (N % 2 == 1) pairs[N / 2] = wide(c[N - 1]);
        return polynomial(pairs, t * t);
    }
}

struct Improvement {
    Lanes factor, exponent;  // h(u) = factor exp(exponent)
    Lanes slope;             // Phi(u) / h(u)
};

INLINE Improvement improvement(const Lanes &u) {
    const Mask below = u < all(0.0);
    const Lanes x = choose(below, all(-1.0) * u, u), t = (x - all(5.0)) / (x + all(5.0)), over = all(1.0) / (1.0 + x);
    const Lanes g = polynomial(SHAPE, t) * (over * over), mills = polynomial(MILLS, t) * over;
    const Lanes squares = all(0.5) * x * x + all(LOG_SQRT_2PI), density = decay(squares);
    const Lanes factor = choose(below, g, u + density * g), mass = choose(below, mills, all(1.0) - density * mills);
    return {factor, choose(below, all(-1.0) * squares, all(0.0)), mass / factor};
}

}  // namespace
}  // namespace boke

#endif

// Eight numbers at a time on every instruction set: vectors of its own width, as many as are needed. Included by files
// that are compiled once for each of them; every copy does the same operations in the same order. A product of vectors that
// something is added to is rounded once, with it: a fused multiply-add, which takes as long as one of the two. It is the
// types that say where, not the compiler, so all copies agree to the last bit.
#pragma once
#include <cstddef>

namespace boke {
constexpr std::size_t LANES = 8;
}

#ifdef BOKE_ISA  // one of the copies

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace boke {
namespace {

constexpr double INF = __builtin_huge_val();

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
typedef unsigned long long Bits __attribute__((vector_size(BYTES)));

struct Mask {
    Integers part[PARTS];
};

struct alignas(LANES * sizeof(double)) Lanes {
    Doubles part[PARTS];
    double operator[](std::size_t i) const { return part[i / WIDTH][i % WIDTH]; }
};

// a b + c, and c - a b: with its sign turned first, a factor would cost an operation more
#if defined(__AVX512F__)
INLINE Doubles fused(const Doubles &a, const Doubles &b, const Doubles &c) {
    return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
INLINE Doubles left(const Doubles &c, const Doubles &a, const Doubles &b) {
    return (Doubles)_mm512_fnmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__AVX2__)
INLINE Doubles fused(const Doubles &a, const Doubles &b, const Doubles &c) {
    return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
INLINE Doubles left(const Doubles &c, const Doubles &a, const Doubles &b) {
    return (Doubles)_mm256_fnmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(__FMA__)
INLINE Doubles fused(const Doubles &a, const Doubles &b, const Doubles &c) {
    return (Doubles)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
}
INLINE Doubles left(const Doubles &c, const Doubles &a, const Doubles &b) {
    return (Doubles)_mm_fnmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
}
#else
INLINE Doubles fused(const Doubles &a, const Doubles &b, const Doubles &c) {
    Doubles r;
    for (std::size_t k = 0; k < WIDTH; ++k) r[k] = __builtin_fma(a[k], b[k], c[k]);
    return r;
}
INLINE Doubles left(const Doubles &c, const Doubles &a, const Doubles &b) { return fused(-a, b, c); }
#endif

#define EACH(result, expression)                                  \
    result r;                                                     \
    for (std::size_t i = 0; i < PARTS; ++i) r.part[i] = expression; \
    return r;

// a b, to which something may still be added; as Lanes it is rounded
struct Product {
    Lanes a, b;
    INLINE operator Lanes() const { EACH(Lanes, a.part[i] * b.part[i]) }
};
INLINE Product operator*(const Lanes &a, const Lanes &b) { return {a, b}; }
INLINE Lanes operator+(const Product &p, const Lanes &c) { EACH(Lanes, fused(p.a.part[i], p.b.part[i], c.part[i])) }
INLINE Lanes operator+(const Lanes &c, const Product &p) { return p + c; }
INLINE Lanes operator+(const Product &p, const Product &c) { return p + Lanes(c); }
INLINE Lanes operator-(const Product &p, const Lanes &c) { EACH(Lanes, fused(p.a.part[i], p.b.part[i], -c.part[i])) }
INLINE Lanes operator-(const Lanes &c, const Product &p) { EACH(Lanes, left(c.part[i], p.a.part[i], p.b.part[i])) }
INLINE Lanes operator-(const Product &p, const Product &c) { return p - Lanes(c); }
INLINE Lanes operator+(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] + b.part[i]) }
INLINE Lanes operator-(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] - b.part[i]) }
INLINE Lanes operator/(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] / b.part[i]) }
INLINE Mask operator<(const Lanes &a, const Lanes &b) { EACH(Mask, a.part[i] < b.part[i]) }
INLINE Mask operator!=(const Lanes &a, const Lanes &b) { EACH(Mask, a.part[i] != b.part[i]) }
INLINE Mask operator&(const Mask &a, const Mask &b) { EACH(Mask, a.part[i] & b.part[i]) }
INLINE Lanes choose(const Mask &m, const Lanes &a, const Lanes &b) { EACH(Lanes, m.part[i] ? a.part[i] : b.part[i]) }
INLINE Lanes smaller(const Lanes &a, const Lanes &b) { EACH(Lanes, a.part[i] < b.part[i] ? a.part[i] : b.part[i]) }
INLINE Lanes all(double v) { EACH(Lanes, v - Doubles{}) }
INLINE Lanes times_power_of_two(const Lanes &a, const Lanes &n) {  // n in the low bits of its parts
    EACH(Lanes, (Doubles)((Integers)a.part[i] + ((Integers)n.part[i] << 52)))
}
#undef EACH
INLINE Lanes &operator+=(Lanes &a, const Lanes &b) { return a = a + b; }
INLINE Lanes &operator+=(Lanes &a, const Product &b) { return a = a + b; }
INLINE Lanes &operator-=(Lanes &a, const Lanes &b) { return a = a - b; }
INLINE Lanes &operator-=(Lanes &a, const Product &b) { return a = a - b; }
INLINE Lanes &operator*=(Lanes &a, const Lanes &b) { return a = a * b; }
INLINE Lanes operator+(double a, const Lanes &b) { return all(a) + b; }
INLINE Lanes operator+(double a, const Product &b) { return all(a) + b; }
INLINE Product operator*(double a, const Lanes &b) { return all(a) * b; }

INLINE Lanes load(const double *from) {
    Lanes v;
    for (std::size_t i = 0; i < PARTS; ++i) __builtin_memcpy(&v.part[i], from + i * WIDTH, BYTES);
    return v;
}

INLINE void store(double *to, const Lanes &v) {  // part by part: all at once they would go through memory
    for (std::size_t i = 0; i < PARTS; ++i) __builtin_memcpy(to + i * WIDTH, &v.part[i], BYTES);
}

INLINE Lanes numbers() {  // 0, 1, ..., 7
    static constexpr double values[LANES] = {0, 1, 2, 3, 4, 5, 6, 7};
    return load(values);
}

INLINE bool any_below(const Lanes &a, double limit) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)a.part[0], _mm512_set1_pd(limit), _CMP_LT_OQ) != 0;
#else
    bool below = false;
    for (std::size_t i = 0; i < LANES; ++i) below = below || a[i] < limit;
    return below;
#endif
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
    // 1 + r + r^2 (1/2 + ...), from a Chebyshev series, relative error 2e-17; in pairs (Estrin), for independent operations
    Lanes a = all(1.0) + r;
    Lanes b = all(0.5) + r * all(0.1666666666666667);
    Lanes c = all(0.04166666666662412) + r * all(0.008333333333326134);
    Lanes d = all(0.0013888888917215586) + r * all(0.00019841269874822307);
    Lanes e = all(2.4801521293463862e-05) + r * all(2.755725539833871e-06);
    Lanes f = all(2.762008948195459e-07) + r * all(2.5105217695684516e-08);
    Lanes low = (a + r2 * b) + r4 * (c + r2 * d);
    Lanes value = low + (r4 * r4) * (e + r2 * f);
    return times_power_of_two(value, shifted);
}

// exp(-r) for r >= 0; no less than exp(-700)
INLINE Lanes decay(const Lanes &r) {
    const Lanes limit = all(-700.0), x = all(0.0) - r;
    return exponential(choose(limit < x, x, limit));
}

INLINE double exponential(double x) { return x < -700.0 ? 0.0 : exponential(all(x))[0]; }

// 2^(j / 16), less the j that the low bits of a power, shifted like an exponent, add to it
alignas(64) constexpr unsigned long long SIXTEENTHS[16] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238, 0x3fef06fe0a31b715, 0x3feedea64c123422,
    0x3feebfdad5362a27, 0x3feeab07dd485429, 0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};

// exp(-s / 2) for 0 <= s < 1400: 2^(n / 16) from a table and a short polynomial, relative error 1e-14, exactly 1 at 0. For the
// many terms of a sum; a single exponential is better served by the function above.
INLINE Lanes half_exponential(const Lanes &s) {
    const Lanes magic = all(422212465065984.0);  // 1.5 * 2^48: adding it rounds to sixteenths
    const Lanes half = all(0.72134752044448170368);
    const Lanes shifted = magic - s * half, f = (magic - shifted) - s * half, f2 = f * f;
    const Lanes a = all(1.0) + f * all(0.6931471805599453);
    const Lanes b = all(0.24022650691319414) + f * all(0.05550410866027587);
    const Lanes c = all(0.009618317140580765) + f * all(0.0013333744338239965);
    const Lanes fine = a + f2 * (b + f2 * c);
    Lanes coarse;
    for (std::size_t i = 0; i < PARTS; ++i) {
        const Bits n = (Bits)shifted.part[i];
#if defined(__AVX512F__)
        const Bits entry = (Bits)_mm512_permutex2var_epi64(_mm512_load_si512(SIXTEENTHS), (__m512i)n, _mm512_load_si512(SIXTEENTHS + 8));
#else
        Bits entry;
        for (std::size_t k = 0; k < WIDTH; ++k) entry[k] = SIXTEENTHS[n[k] & 15];
#endif
        coarse.part[i] = (Doubles)(entry + (n << 48));
    }
    return fine * coarse;
}

// ln(x) for positive, normal x: x = 2^n m with m around 1, and a series in (m - 1) / (m + 1), as in the C libraries.
INLINE Lanes logarithm(const Lanes &x) {
    constexpr unsigned long long ONE = 0x3ff0000000000000, LEAST = 0x3fe6a09e00000000;  // bits of 1 and of the smallest m
    constexpr unsigned long long FRACTION = 0x000fffffffffffff, TWO52 = 0x4330000000000000;
    Lanes n, m;
    for (std::size_t i = 0; i < PARTS; ++i) {
        const Bits shifted = (Bits)x.part[i] + (ONE - LEAST);
        n.part[i] = (Doubles)((shifted >> 52) | TWO52) - (4503599627370496.0 + 1023.0);
        m.part[i] = (Doubles)((shifted & FRACTION) + LEAST);
    }
    const Lanes f = m - all(1.0), s = f / (all(2.0) + f), s2 = s * s, s4 = s2 * s2, half = all(0.5) * f * f;
    const Lanes fine = 0.1818357216161805012 + s4 * all(0.1479819860511658591);
    const Lanes odd = s2 * (0.6666666666666735130 + s4 * (0.2857142874366239149 + s4 * fine));
    const Lanes even = s4 * (0.3999999999940941908 + s4 * (0.2222219843214978396 + s4 * all(0.1531383769920937332)));
    const Lanes low = s * (half + (odd + even)) + n * all(1.90821492927058770002e-10);
    return n * all(0.693147180369123816490) - ((half - low) - f);
}

INLINE Lanes root(const Lanes &s) {
    Lanes v;
    for (std::size_t i = 0; i < PARTS; ++i)
#if defined(__AVX512F__)
        v.part[i] = (Doubles)_mm512_sqrt_pd((__m512d)s.part[i]);
#elif defined(__AVX2__)
        v.part[i] = (Doubles)_mm256_sqrt_pd((__m256d)s.part[i]);
#elif defined(__SSE2__)
        v.part[i] = (Doubles)_mm_sqrt_pd((__m128d)s.part[i]);
#else
        for (std::size_t k = 0; k < WIDTH; ++k) v.part[i][k] = __builtin_sqrt(s.part[i][k]);
#endif
    return v;
}

// Sixteen numbers in single precision, for what need not be exact: as many bytes as eight in double.
typedef float Floats __attribute__((vector_size(BYTES)));
typedef int Words __attribute__((vector_size(BYTES)));
constexpr std::size_t SINGLES = 2 * LANES;

INLINE Floats fused(const Floats &a, const Floats &b, const Floats &c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FMA__)
    return (Floats)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#else
    Floats r;
    for (std::size_t k = 0; k < 2 * WIDTH; ++k) r[k] = __builtin_fmaf(a[k], b[k], c[k]);
    return r;
#endif
}

struct alignas(SINGLES * sizeof(float)) Singles {
    Floats part[PARTS];
    float operator[](std::size_t i) const { return part[i / (2 * WIDTH)][i % (2 * WIDTH)]; }
};

#define EACH(expression)                                          \
    Singles r;                                                    \
    for (std::size_t i = 0; i < PARTS; ++i) r.part[i] = expression; \
    return r;
struct SingleProduct {
    Singles a, b;
    INLINE operator Singles() const { EACH(a.part[i] * b.part[i]) }
};
INLINE SingleProduct operator*(const Singles &a, const Singles &b) { return {a, b}; }
INLINE Singles operator+(const SingleProduct &p, const Singles &c) { EACH(fused(p.a.part[i], p.b.part[i], c.part[i])) }
INLINE Singles operator+(const Singles &c, const SingleProduct &p) { return p + c; }
INLINE Singles operator+(const Singles &a, const Singles &b) { EACH(a.part[i] + b.part[i]) }
INLINE Singles operator-(const Singles &a, const Singles &b) { EACH(a.part[i] - b.part[i]) }
INLINE Singles smaller(const Singles &a, const Singles &b) { EACH(a.part[i] < b.part[i] ? a.part[i] : b.part[i]) }
INLINE Singles larger(const Singles &a, const Singles &b) { EACH(a.part[i] > b.part[i] ? a.part[i] : b.part[i]) }
INLINE Singles singles(float v) { EACH(v - Floats{}) }
INLINE Singles times_power_of_two(const Singles &a, const Singles &n) {  // n in the low bits of its parts
    EACH((Floats)((Words)a.part[i] + ((Words)n.part[i] << 23)))
}
#undef EACH

INLINE bool any_within(const Singles &a, float limit) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a.part[0], _mm512_set1_ps(limit), _CMP_LE_OQ) != 0;
#elif defined(__AVX2__)
    const __m256 b = _mm256_set1_ps(limit), low = (__m256)a.part[0], high = (__m256)a.part[1];
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(low, b, _CMP_LE_OQ), _mm256_cmp_ps(high, b, _CMP_LE_OQ))) != 0;
#else
    for (std::size_t i = 0; i < SINGLES; ++i)
        if (a[i] <= limit) return true;
    return false;
#endif
}

// exp(-s / 2) to seven digits for s <= 160, and for larger ones what it is there, which is nothing beside 1
INLINE Singles half_exponential(const Singles &s) {
    const Singles magic = singles(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Singles x = smaller(s, singles(160.0f)) * singles(-0.72134752f);
    const Singles shifted = x + magic, r = x - (shifted - magic), r2 = r * r;
    // 2^r = 1 + r ln 2 + (r ln 2)^2/2! + ... + (r ln 2)^6/6!, in pairs (Estrin)
    const Singles a = singles(1.0f) + r * singles(0.693147181f);
    const Singles b = singles(0.240226507f) + r * singles(0.0555041087f);
    const Singles c = singles(0.00961812911f) + r * singles(0.00133335581f);
    return times_power_of_two((a + r2 * b) + (r2 * r2) * (c + r2 * singles(0.000154035304f)), shifted);
}

}  // namespace
}  // namespace boke

#endif

// Candidates of a box, with NumPy's random numbers.
#pragma once
#include <cstdint>
#include <vector>

namespace boke {

inline double shifted(std::uint32_t digits, std::uint32_t shift) { return (static_cast<double>(digits ^ shift) + 0.5) * 0x1p-32; }

// numpy/random/bitgen.h: what the capsule of a NumPy generator holds
struct Random {
    void *state;
    std::uint64_t (*next_uint64)(void *);
    std::uint32_t (*next_uint32)(void *);
    double (*next_double)(void *);
    std::uint64_t (*next_raw)(void *);

    std::uint32_t digits() { return next_uint32(state); }
    double uniform() { return next_double(state); }

    // Below `end`, as Generator.integers draws it (Lemire 2019)
    std::uint32_t below(std::uint32_t end) {
        if (end == 1) return 0;
        std::uint64_t product = std::uint64_t{digits()} * end;
        for (const std::uint32_t least = -end % end; static_cast<std::uint32_t>(product) < least;)
            product = std::uint64_t{digits()} * end;
        return static_cast<std::uint32_t>(product >> 32);
    }
};

// Sobol points (n, d), as integers
struct Sobol {
    const std::uint32_t *digits;
    std::size_t n, d;
};

// Points of the box [low, high]: from Sobol points with a shift; all but a few columns of the first `few` stay at the
// center. Random numbers of the generator (a capsule's content) are drawn in the order of boke.local's definition.
inline std::vector<double> drawn_in_box(const Sobol &points, std::size_t few, double share, const double *center, const double *low,
                                        const double *high, void *generator) {
    Random draw = *static_cast<Random *>(generator);
    const std::size_t n = points.n, d = points.d;
    std::vector<double> x(n * d);
    std::vector<std::uint32_t> shift(d);
    std::vector<char> moves(few * d);
    for (std::uint32_t &digits : shift) digits = draw.digits();
    for (char &one : moves) one = draw.uniform() < share;
    for (std::size_t i = 0; i < few; ++i) moves[i * d + draw.below(static_cast<std::uint32_t>(d))] = true;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < d; ++k) {
            const double u = shifted(points.digits[i * d + k], shift[k]);
            x[i * d + k] = i >= few || moves[i * d + k] ? low[k] + (high[k] - low[k]) * u : center[k];
        }
    return x;
}

}  // namespace boke

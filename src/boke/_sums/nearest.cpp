#include "nearest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace boke {
namespace {

constexpr std::size_t EARLY = 8;  // columns after which a hopeless block is given up

// Two distances, in steps of a code, and how a column joins what was found of them so far.
struct Squares {
    using Away = std::int32_t;  // enough for 33,000 columns
    static Away join(Away sum, std::uint8_t code, std::uint8_t at) {
        const auto step = static_cast<std::int16_t>(code - at);
        return sum + static_cast<std::uint16_t>(step * step);
    }
    static double length(Away away) { return std::sqrt(static_cast<double>(away)); }
    static double away(double length) { return length * length; }
};

struct Largest {
    using Away = std::uint8_t;
    static Away join(Away sum, std::uint8_t code, std::uint8_t at) {
        const Away step = code > at ? code - at : at - code;
        return step > sum ? step : sum;
    }
    static double length(Away away) { return away; }
    static double away(double length) { return length; }
};

// Columns join the distances of a block. Points are the inner loop, for the compiler to make vectors of.
template <class Metric, std::size_t COLUMNS, class Away = typename Metric::Away>
void join(const std::uint8_t *__restrict codes, const std::uint8_t *__restrict query, Away *__restrict away) {
    for (std::size_t i = 0; i < BLOCK; ++i) {
        Away sum = away[i];
        for (std::size_t j = 0; j < COLUMNS; ++j) sum = Metric::join(sum, codes[j * BLOCK + i], query[j]);
        away[i] = sum;
    }
}

#if defined(__SSE2__)
// The same integers in little more than half the time: there is an instruction for the sum of two squares.
template <>
void join<Squares, EARLY>(const std::uint8_t *__restrict codes, const std::uint8_t *__restrict query, Squares::Away *__restrict away) {
    const __m128i zero = _mm_setzero_si128();
    for (std::size_t i = 0; i < BLOCK; i += 16) {
        __m128i sum[4], a, b;
        std::memcpy(sum, away + i, sizeof sum);
        for (std::size_t j = 0; j < EARLY; j += 2) {
            std::memcpy(&a, codes + j * BLOCK + i, sizeof a);
            std::memcpy(&b, codes + (j + 1) * BLOCK + i, sizeof b);
            const __m128i at = _mm_set1_epi32(query[j] | query[j + 1] << 16);
            const __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
            const __m128i pairs[] = {_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                                     _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
            for (std::size_t v = 0; v < 4; ++v) {
                const __m128i step = _mm_sub_epi16(pairs[v], at);
                sum[v] = _mm_add_epi32(sum[v], _mm_madd_epi16(step, step));
            }
        }
        std::memcpy(away + i, sum, sizeof sum);
    }
}
#endif

template <class Away>
bool any_within(const Away *away, Away limit) {
    Away any = 0;
    for (std::size_t i = 0; i < BLOCK; ++i) any |= away[i] <= limit;
    return any != 0;
}

// False if all of the block are beyond the limit; the distances are complete otherwise.
template <class Metric, class Away = typename Metric::Away>
bool measure(const std::uint8_t *codes, const std::uint8_t *query, std::size_t columns, Away limit, Away *away) {
    std::fill(away, away + BLOCK, 0);
    std::size_t j = 0;
    for (; j + EARLY <= columns; j += EARLY) {
        join<Metric, EARLY>(codes + j * BLOCK, query + j, away);
        if (j == 0 && !any_within(away, limit)) return false;  // later it would save less than gaps in reading cost
    }
    for (; j < columns; ++j) join<Metric, 1>(codes + j * BLOCK, query + j, away);
    return any_within(away, limit);
}

template <class Metric, class Away = typename Metric::Away>
std::vector<std::int64_t> search(const std::vector<Piece> &pieces, std::size_t n, const std::uint8_t *query, std::size_t columns,
                                 const bool *alive, std::size_t k, double slack) {
    struct Found {
        Away away;
        std::int64_t row;
    };
    constexpr Away MOST = std::numeric_limits<Away>::max();
    Away away[BLOCK], limit = MOST;
    std::vector<Found> found;
    std::size_t room = 2 * k;
    auto narrow = [&] {
        if (found.size() < k) return;
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), [](const Found &a, const Found &b) { return a.away < b.away; });
        const double beyond = Metric::away(Metric::length(found[k - 1].away) + slack);
        limit = static_cast<Away>(std::min<double>(beyond, limit));
        found.erase(std::remove_if(found.begin(), found.end(), [&](const Found &one) { return one.away > limit; }), found.end());
        room = std::max(room, 2 * found.size());  // many may tie
    };
    std::size_t first = 0;
    for (const Piece &piece : pieces) first += piece.blocks * BLOCK;
    // The last piece comes first: a search leaves its last points near its best, and the limit is small from the start.
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        first -= piece->blocks * BLOCK;
        for (std::size_t b = 0, row = first; b < piece->blocks && row < n; ++b, row += BLOCK) {
            if (!measure<Metric>(piece->codes + b * piece->columns * BLOCK, query, columns, limit, away)) continue;
            for (std::size_t i = 0; i < BLOCK && row + i < n; ++i)
                if (away[i] <= limit && alive[row + i]) found.push_back({away[i], static_cast<std::int64_t>(row + i)});
            if (found.size() >= room) narrow();
        }
    }
    narrow();
    std::vector<std::int64_t> rows;
    for (const Found &one : found) rows.push_back(one.row);
    std::sort(rows.begin(), rows.end());
    return rows;
}

}  // namespace

std::vector<std::int64_t> nearest(const std::vector<Piece> &pieces, std::size_t n, const std::uint8_t *query, std::size_t columns,
                                  const bool *alive, std::size_t k, double slack, bool largest) {
    return (largest ? search<Largest> : search<Squares>)(pieces, n, query, columns, alive, k, slack);
}

}  // namespace boke

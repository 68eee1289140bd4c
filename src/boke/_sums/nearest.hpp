// The nearest of many points by a coarse copy of them: one byte for each number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace boke {

// A part of the copy: block b holds column j of its BLOCK points at codes[(b * columns + j) * BLOCK].
struct Piece {
    const std::uint8_t *codes;
    std::size_t blocks, columns;
};

// Numbers of some of the first n points, in order: all that are alive and whose distance by codes from the query is at most
// `slack` larger than that of the k-th nearest. The distance is the length or the largest difference, in steps of a code;
// columns that the query does not have are left aside.
std::vector<std::int64_t> nearest(const std::vector<Piece> &pieces, std::size_t n, const std::uint8_t *query, std::size_t columns,
                                  const bool *alive, std::size_t k, double slack, bool largest, Squares squares);

}  // namespace boke

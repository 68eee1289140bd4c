// Corners of the Voronoi cells of sites in a rectangle.
#pragma once
#include <cstddef>
#include <vector>

namespace boke {

struct Corner {
    double x, y;
    std::size_t site;  // to whose cell it belongs
};

// The corners of every wanted site's cell in [0, width] x [0, height]; sites (n, 2) lie inside, and equal ones share a cell.
std::vector<Corner> cells(const double *sites, std::size_t n, const bool *wanted, double width, double height);

}  // namespace boke

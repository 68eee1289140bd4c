// Corners of the Voronoi cells of sites in a rectangle.
#pragma once
#include <cstddef>
#include <vector>

namespace boke {

struct Corner {
    double x, y;
    std::size_t site;  // to whose cell it belongs
};

// The corners of every site's cell in [0, width] x [0, height]; sites (n, 2) lie inside, and equal ones share a cell.
std::vector<Corner> cells(const double *sites, std::size_t n, double width, double height);

// Points (., 2) so many bandwidths `inside` the n corners with the largest hopes, y + beta (k + rho)^(-1/2) with the
// gaussian k of a corner and its site, of observations x (t, 2) with values y (t) in the unit square.
std::vector<double> promising(const double *x, const double *y, std::size_t t, const double *bandwidth, double beta, double rho, std::size_t n,
                              const std::vector<double> &inside);

}  // namespace boke

#include "cells.hpp"

#include <algorithm>
#include <numeric>

namespace boke {
namespace {

struct Point {
    double x, y;
};

// The polygon of a cell around the origin, cut by one neighbour after the other.
class Cell {
  public:
    Cell(double left, double low, double right, double high)
        : corners_{{left, low}, {right, low}, {right, high}, {left, high}} {
        measure();
    }

    // Keep what is nearer to the origin than to another site.
    void cut(Point other) {
        const double half = 0.5 * (other.x * other.x + other.y * other.y);
        beyond_.clear();
        bool any = false;
        for (const Point &p : corners_) {
            beyond_.push_back(p.x * other.x + p.y * other.y - half);
            any = any || beyond_.back() > 0.0;
        }
        if (!any) return;
        kept_.clear();
        for (std::size_t i = 0; i < corners_.size(); ++i) {
            const std::size_t j = i + 1 < corners_.size() ? i + 1 : 0;
            const double a = beyond_[i], b = beyond_[j];
            if (!(a > 0.0)) kept_.push_back(corners_[i]);
            if ((a < 0.0 && b > 0.0) || (a > 0.0 && b < 0.0)) {
                const Point p = corners_[i], q = corners_[j];
                const double t = a / (a - b);
                kept_.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
            }
        }
        std::swap(corners_, kept_);
        measure();
    }

    const std::vector<Point> &corners() const { return corners_; }
    double reach() const { return reach_; }  // squared distance from which on a neighbour does not matter

  private:
    void measure() {
        reach_ = 0.0;
        for (const Point &p : corners_) reach_ = std::max(reach_, 4.0 * (p.x * p.x + p.y * p.y));
    }

    std::vector<Point> corners_, kept_;
    std::vector<double> beyond_;
    double reach_ = 0.0;
};

}  // namespace

std::vector<Corner> cells(const double *sites, std::size_t n, const bool *wanted, double width, double height) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sites[2 * a] < sites[2 * b]; });
    std::vector<Point> sorted(n);
    for (std::size_t i = 0; i < n; ++i) sorted[i] = {sites[2 * order[i]], sites[2 * order[i] + 1]};
    std::vector<Corner> found;
    for (std::size_t i = 0; i < n; ++i) {
        if (!wanted[order[i]]) continue;
        const Point at = sorted[i];
        Cell cell(-at.x, -at.y, width - at.x, height - at.y);
        // Neighbours from both sides, the nearer by its first coordinate first, until none can matter.
        for (std::size_t left = i, right = i + 1; left > 0 || right < n;) {
            const double before = left > 0 ? at.x - sorted[left - 1].x : width * 2.0;
            const double after = right < n ? sorted[right].x - at.x : width * 2.0;
            const std::size_t j = before < after ? --left : right++;
            const Point q = {sorted[j].x - at.x, sorted[j].y - at.y};
            if (q.x * q.x >= cell.reach()) break;
            const double squared = q.x * q.x + q.y * q.y;
            if (squared > 0.0 && squared < cell.reach()) cell.cut(q);
        }
        for (const Point &p : cell.corners()) found.push_back({std::clamp(at.x + p.x, 0.0, width), std::clamp(at.y + p.y, 0.0, height), order[i]});
    }
    return found;
}

}  // namespace boke

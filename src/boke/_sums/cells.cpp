#include "cells.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace boke {
namespace {

struct Point {
    double x, y;
};

double squared(Point p) { return p.x * p.x + p.y * p.y; }

// The polygon of a cell around the origin, cut by one neighbour after the other.
class Cell {
  public:
    void start(double left, double low, double right, double high) {
        corners_ = {{left, low}, {right, low}, {right, high}, {left, high}};
        measure();
    }

    // Keep what is nearer to the origin than to another site; whether that is less than before.
    bool cut(Point other) {
        const double half = 0.5 * squared(other);
        auto beyond = [=](Point p) { return p.x * other.x + p.y * other.y - half; };
        // rounding keeps order: where the farthest corner of the box is not beyond, none of the cell's is
        if (!(beyond({other.x < 0.0 ? low_.x : high_.x, other.y < 0.0 ? low_.y : high_.y}) > 0.0)) return false;
        beyond_.clear();
        bool any = false;
        for (const Point &p : corners_) {
            beyond_.push_back(beyond(p));
            any = any || beyond_.back() > 0.0;
        }
        if (!any) return false;
        kept_.clear();
        for (std::size_t i = 0, n = corners_.size(); i < n; ++i) {
            const std::size_t next = i + 1 < n ? i + 1 : 0;
            const Point p = corners_[i], q = corners_[next];
            const double a = beyond_[i], b = beyond_[next];
            if (!(a > 0.0)) kept_.push_back(p);
            if ((a < 0.0 && b > 0.0) || (a > 0.0 && b < 0.0)) {
                const double t = a / (a - b);
                kept_.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
            }
        }
        std::swap(corners_, kept_);
        measure();
        return true;
    }

    const std::vector<Point> &corners() const { return corners_; }
    double reach() const { return reach_; }  // squared distance from which on a neighbour does not matter

  private:
    void measure() {
        reach_ = 0.0;
        low_ = high_ = {0.0, 0.0};  // the site, which is inside
        for (const Point &p : corners_) {
            reach_ = std::max(reach_, 4.0 * squared(p));
            low_ = {std::min(low_.x, p.x), std::min(low_.y, p.y)};
            high_ = {std::max(high_.x, p.x), std::max(high_.y, p.y)};
        }
    }

    std::vector<Point> corners_, kept_;
    std::vector<double> beyond_;
    Point low_{}, high_{};  // corners of the smallest box around the cell
    double reach_ = 0.0;
};

// Sites of the rectangle, by their first coordinate.
class Plane {
  public:
    Plane(const double *sites, std::size_t n, double width, double height) : order(n), sorted_(n), width_(width), height_(height) {
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sites[2 * a] < sites[2 * b]; });
        for (std::size_t i = 0; i < n; ++i) sorted_[i] = {sites[2 * order[i]], sites[2 * order[i] + 1]};
    }

    // Add the corners of the cell of the i-th of them, unless it is `hopeless`, which is asked of the cell's reach.
    template <class Hopeless>
    void cell(std::size_t i, std::vector<Corner> &found, Hopeless hopeless) {
        const std::size_t n = order.size();
        const Point at = sorted_[i];
        cell_.start(-at.x, -at.y, width_ - at.x, height_ - at.y);
        // Neighbours from both sides, the nearer by its first coordinate first, until none can matter.
        for (std::size_t left = i, right = i + 1; left > 0 || right < n;) {
            const double before = left > 0 ? at.x - sorted_[left - 1].x : width_ * 2.0;
            const double after = right < n ? sorted_[right].x - at.x : width_ * 2.0;
            const std::size_t j = before < after ? --left : right++;
            const Point q = {sorted_[j].x - at.x, sorted_[j].y - at.y};
            if (q.x * q.x >= cell_.reach()) break;
            if (squared(q) > 0.0 && squared(q) < cell_.reach() && cell_.cut(q) && hopeless(cell_.reach())) return;
        }
        for (const Point &p : cell_.corners())
            found.push_back({std::clamp(at.x + p.x, 0.0, width_), std::clamp(at.y + p.y, 0.0, height_), order[i]});
    }

    std::vector<std::size_t> order;

  private:
    std::vector<Point> sorted_;
    Cell cell_;
    double width_, height_;
};

}  // namespace

std::vector<Corner> cells(const double *sites, std::size_t n, double width, double height) {
    Plane plane(sites, n, width, height);
    std::vector<Corner> found;
    for (std::size_t i = 0; i < n; ++i) plane.cell(i, found, [](double) { return false; });
    return found;
}

std::vector<double> promising(const double *x, const double *y, std::size_t t, const double *bandwidth, double beta, double rho, std::size_t n,
                              const std::vector<double> &inside) {
    struct Hope {
        double value;
        Corner corner;
        Point home;
    };
    std::vector<double> scaled(2 * t), top;  // the n largest hopes, the least of them in front
    for (std::size_t i = 0; i < 2 * t; ++i) scaled[i] = x[i] / bandwidth[i % 2];
    Plane plane(scaled.data(), t, 1.0 / bandwidth[0], 1.0 / bandwidth[1]);
    std::vector<std::size_t> best(t), place(t);
    for (std::size_t i = 0; i < t; ++i) best[i] = i, place[plane.order[i]] = i;
    std::stable_sort(best.begin(), best.end(), [&](std::size_t a, std::size_t b) { return y[a] > y[b]; });
    const double full = beta / std::sqrt(rho);
    auto bonus = [=](double square) { return beta / std::sqrt(std::exp(-0.5 * square) + rho); };
    std::vector<Corner> corners;
    std::vector<Hope> hopes;
    for (const std::size_t site : best) {
        if (top.size() == n && y[site] + full < top.front()) break;  // nor can a corner of any later one be among the n
        corners.clear();
        // as a rule among observations that are close to each other: no corner of such a cell can be among the n
        plane.cell(place[site], corners, [&](double reach) {
            return top.size() == n && y[site] + (1.0 + 1e-6) * bonus(0.25 * reach) < top.front();  // rounding included
        });
        for (const Corner &corner : corners) {
            const Point home = {scaled[2 * site] - corner.x, scaled[2 * site + 1] - corner.y};
            hopes.push_back({y[site] + bonus(squared(home)), corner, home});
            top.push_back(hopes.back().value);
            std::push_heap(top.begin(), top.end(), std::greater<double>());
            if (top.size() <= n) continue;
            std::pop_heap(top.begin(), top.end(), std::greater<double>());
            top.pop_back();
        }
    }
    std::stable_sort(hopes.begin(), hopes.end(), [](const Hope &a, const Hope &b) { return a.value > b.value; });
    hopes.resize(std::min(hopes.size(), n));
    std::vector<double> points;
    for (const double part : inside)
        for (const Hope &hope : hopes) {
            const double away = std::sqrt(squared(hope.home));
            if (!(away > part)) continue;
            points.push_back(std::clamp((hope.corner.x + part / away * hope.home.x) * bandwidth[0], 0.0, 1.0));
            points.push_back(std::clamp((hope.corner.y + part / away * hope.home.y) * bandwidth[1], 0.0, 1.0));
        }
    return points;
}

}  // namespace boke

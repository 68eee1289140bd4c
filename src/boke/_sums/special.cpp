#include "special.hpp"

#include <cmath>

namespace boke {
namespace {

constexpr double SQRT2 = 1.41421356237309505, LOG_SQRT_2PI = 0.918938533204672742, SQRT_HALF_PI = 1.25331413731550025;

// Mills' ratio Phi(u) / phi(u) for u <= -1: by erfc where that is a normal number, by its continued fraction beyond
double mills(double u) {
    if (u > -20.0) return SQRT_HALF_PI * std::erfc(-u / SQRT2) * std::exp(0.5 * u * u);
    double fraction = 0.0;
    for (int k = 12; k > 0; --k) fraction = k / (-u + fraction);
    return 1.0 / (-u + fraction);
}

// 1 + u Phi(u) / phi(u), which cancels for very negative u: there it is a continued fraction again
double shape(double u) {
    if (u > -5.0) return 1.0 + u * mills(u);
    double fraction = 0.0;
    for (int k = u > -10.0 ? 24 : 12; k > 0; --k) fraction = k / (-u + fraction);  // enough for a double
    return fraction / (-u + fraction);
}

}  // namespace

double log_improvement(double u) {
    if (u > -1.0) return std::log(u * 0.5 * std::erfc(-u / SQRT2) + std::exp(-0.5 * u * u - LOG_SQRT_2PI));
    return -0.5 * u * u - LOG_SQRT_2PI + std::log(shape(u));
}

double log_improvement_slope(double u, double log_h) {
    if (u > -1.0) return 0.5 * std::erfc(-u / SQRT2) / std::exp(log_h);
    return mills(u) / shape(u);
}

}  // namespace boke

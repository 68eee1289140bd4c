// The logarithm of the expected improvement's shape, h(u) = u Phi(u) + phi(u), without underflow.
#pragma once

namespace boke {

double log_improvement(double u);
double log_improvement_slope(double u, double log_h);  // Phi(u) / h(u)

}  // namespace boke

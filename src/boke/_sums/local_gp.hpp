#pragma once
#include <nanobind/nanobind.h>

void bind_local_gp(nanobind::module_ &m);

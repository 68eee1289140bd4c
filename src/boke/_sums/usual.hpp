#pragma once
#include <nanobind/nanobind.h>

void bind_usual(nanobind::module_ &m);

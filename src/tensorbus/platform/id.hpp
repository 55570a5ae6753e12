#pragma once

#include <tensorbus/id.hpp>  // as programs see it

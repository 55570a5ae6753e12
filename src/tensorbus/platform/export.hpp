#pragma once

// TENSORBUS_API marks what libtensorbus exports; everything else is hidden.
#if defined(TENSORBUS_BUILD)
#define TENSORBUS_API __attribute__((visibility("default")))
#else
#define TENSORBUS_API
#endif

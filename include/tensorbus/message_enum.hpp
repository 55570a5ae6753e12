#pragma once

// Kept until 1.0: the former path of this header.
#include <tensorbus/values/message_enum.hpp>

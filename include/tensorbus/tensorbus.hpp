#pragma once

// Tensorbus for C++: includes everything for publishing, receiving, sharing and queueing tensors.
//
// These headers are compiled with the program. Of libtensorbus they use only the functions of
// <tensorbus/tensorbus.h>, whose ABI is stable. So they work with any compiler, and with the
// library of any later version with the same soname (docs/c.md).
#include <tensorbus/async/task.hpp>
#include <tensorbus/client.hpp>
#include <tensorbus/content.hpp>
#include <tensorbus/executor.hpp>
#include <tensorbus/file.hpp>
#include <tensorbus/handle.hpp>
#include <tensorbus/inspection.hpp>
#include <tensorbus/listing.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/log.hpp>
#include <tensorbus/parents.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/player.hpp>
#include <tensorbus/publisher.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/recorder.hpp>
#include <tensorbus/recording.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/service.hpp>
#include <tensorbus/share.hpp>
#include <tensorbus/standard_messages.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/sync/sample_time.hpp>
#include <tensorbus/sync/time_synchronizer.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/typed_message.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/dims.hpp>
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/file_options.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/listed.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/message_enum.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/origin.hpp>
#include <tensorbus/values/outcome.hpp>
#include <tensorbus/values/played.hpp>
#include <tensorbus/values/recorded.hpp>
#include <tensorbus/values/sample_header.hpp>
#include <tensorbus/values/service_error.hpp>
#include <tensorbus/values/stats.hpp>
#include <tensorbus/values/value.hpp>

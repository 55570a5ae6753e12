/* Tensorbus for C, and for every language that can call C: passes tensors between processes by
 * reference. docs/c.md explains it with programs.
 *
 *   tb_publisher *publisher = NULL;
 *   tb_loan *frame = NULL;
 *   int64_t shape[3] = {1080, 1920, 3};
 *   tb_tensor tensor = TB_TENSOR_INIT;
 *   tb_layout layout = {TB_UINT8, 0, 3, shape, NULL};
 *   if (tb_publisher_create(NULL, "camera/image", NULL, &publisher) < 0 ||
 *       tb_publisher_loan(publisher, &layout, TB_HOST, &frame) < 0)
 *     return puts(tb_error_message());
 *   tb_loan_tensor(frame, &tensor);
 *   capture(tensor.data);
 *   tb_publisher_publish_loan(publisher, &frame, NULL, NULL);
 *   tb_publisher_destroy(publisher);
 *
 * Rules for all functions:
 * - Functions that can fail return a tb_status. They write results to their last arguments, which
 *   stay unchanged unless the status is TB_OK.
 * - The caller owns the result of a function ending in _create, _open, _loan, _receive, _get,
 *   _get_while, _copy, _attach, _map or _inspect, and passes it to the function that destroys or
 *   releases it. Those functions accept NULL, and then do nothing.
 * - Texts are UTF-8 and end with a zero byte. Times are in nanoseconds, sizes in bytes.
 * - Several threads may use an object at once, but not while one of them destroys it. A forked
 *   child must not use objects of its parent, unless the comment of the object allows it.
 * - Structs that begin with struct_size may grow in later versions: initialise them with the macro
 *   of their name. Programs that were compiled with an older or a newer header then work.
 */
#ifndef TENSORBUS_TENSORBUS_H
#define TENSORBUS_TENSORBUS_H

#include <tensorbus/c/file.h>
#include <tensorbus/c/inspection.h>
#include <tensorbus/c/ipc.h>
#include <tensorbus/c/listing.h>
#include <tensorbus/c/log.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/player.h>
#include <tensorbus/c/publisher.h>
#include <tensorbus/c/queue.h>
#include <tensorbus/c/recording.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/share.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/subscriber.h>
#include <tensorbus/c/tensor.h>
#include <tensorbus/c/version.h>

#endif

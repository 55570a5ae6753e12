/* Tensorbus for C, and for every language that can call C: tensors from one process to another, by
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
 * What is said of all of it:
 * - Functions that can fail return a tb_status; what they give is behind their last arguments, and
 *   is untouched unless the status says TB_OK.
 * - What a function ending in _create, _open, _loan, _receive, _get, _copy, _attach or _map gives
 *   is the caller's, to be given to the function that ends it. These take NULL, and do nothing
 *   then.
 * - Texts are UTF-8 and end with a zero byte. Times are in nanoseconds, sizes in bytes.
 * - Objects may be used by several threads at once, unless it says otherwise; not while one of them
 *   ends it. Of a process that was forked, the child uses none that the parent made.
 * - Structs that begin with struct_size may grow in later versions: initialise them with the macro
 *   of their name, and a program that was compiled with an older or a newer header works on.
 */
#ifndef TENSORBUS_TENSORBUS_H
#define TENSORBUS_TENSORBUS_H

#include <tensorbus/c/file.h>
#include <tensorbus/c/listing.h>
#include <tensorbus/c/participant.h>
#include <tensorbus/c/publisher.h>
#include <tensorbus/c/queue.h>
#include <tensorbus/c/sample.h>
#include <tensorbus/c/share.h>
#include <tensorbus/c/status.h>
#include <tensorbus/c/subscriber.h>
#include <tensorbus/c/tensor.h>
#include <tensorbus/c/version.h>

#endif

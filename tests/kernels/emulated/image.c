/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the kernels' machine code: the double of the driver knows the kernels by their names.
 */
#include <stddef.h>

extern const unsigned char tw_device_image[];
extern const size_t tw_device_image_bytes;
const unsigned char tw_device_image[] = "a double's image";
const size_t tw_device_image_bytes = sizeof tw_device_image;

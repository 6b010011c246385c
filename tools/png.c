/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as model inputs, through libpng's simplified API. */
#include "tools/command.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

#include <backplane/object.h>

#define MAX_SIDE 16384

typedef struct Layout {
  int64_t channels, height, width;
} Layout;

/* Reads [N=1,] [C,] H, W from the shape of the input. Height and width may be -1, and so may N. */
static int layout_of(const int64_t *shape, int32_t ndim, Layout *layout) {
  if (ndim < 2 || ndim > 4 || (ndim == 4 && shape[0] != 1 && shape[0] != -1) ||
      (ndim > 2 && shape[ndim - 3] != 1 && shape[ndim - 3] != 3)) {
    char *text = shape_to_text(shape, ndim);
    bp_error_raise(BP_ERROR_VALUE,
                   "a picture fits an input of shape 1xCxHxW, CxHxW or HxW with C of 1 or 3, "
                   "and this one has shape %s; give it a .npy file",
                   text);
    g_free(text);
    return -1;
  }
  *layout = (Layout){ndim > 2 ? shape[ndim - 3] : 1, shape[ndim - 2], shape[ndim - 1]};
  return 0;
}

/* Converts interleaved bytes, `bytes` of them a pixel, to planes of floats in 0..1. */
static void to_planes(const png_byte *pixels, size_t bytes, const Layout *layout, float *out) {
  int64_t area = layout->height * layout->width;
  for (int64_t c = 0; c < layout->channels; c++)
    for (int64_t i = 0; i < area; i++)
      out[c * area + i] = (float)pixels[(size_t)i * bytes + (size_t)c] / 255.0f;
}

static int check_size(const png_image *image, const char *path, const Layout *layout) {
  if (image->width > MAX_SIDE || image->height > MAX_SIDE)
    return bp_error_raise(BP_ERROR_VALUE, "%s is %u pixels wide and %u high, and at most %d can be",
                          path, image->width, image->height, MAX_SIDE);
  if (image->width != layout->width || image->height != layout->height)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s is %u pixels wide and %u high, the input is %" G_GINT64_FORMAT
                          " by %" G_GINT64_FORMAT "; scale the picture first",
                          path, image->width, image->height, layout->width, layout->height);
  return 0;
}

/* Alpha is ignored: there is no background to blend with. */
static BpTensor *decode(png_image *image, const char *path, Layout *layout, int32_t ndim) {
  layout->width = layout->width < 0 ? image->width : layout->width;
  layout->height = layout->height < 0 ? image->height : layout->height;
  const int64_t extents[] = {1, layout->channels, layout->height, layout->width};
  if (check_size(image, path, layout) < 0)
    return NULL;
  image->format =
      (layout->channels == 1 ? 0 : PNG_FORMAT_FLAG_COLOR) | (image->format & PNG_FORMAT_FLAG_ALPHA);
  png_byte *pixels = g_try_malloc(PNG_IMAGE_SIZE(*image));
  if (!pixels) {
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for its pixels", path);
    return NULL;
  }
  BpTensor *tensor = NULL;
  if (!png_image_finish_read(image, NULL, pixels, 0, NULL))
    bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, image->message);
  else
    tensor = bp_tensor_create(extents + 4 - ndim, ndim, (BpDataType){BP_DTYPE_FLOAT, 32, 1},
                              (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (tensor)
    to_planes(pixels, PNG_IMAGE_PIXEL_SIZE(image->format), layout, tensor->view.data);
  g_free(pixels);
  return tensor;
}

/* Opens a file whose first byte can be read; a folder's cannot. */
static FILE *open_readable(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file && (ungetc(getc(file), file) != EOF || !ferror(file)))
    return file;
  bp_error_raise(BP_ERROR_IO, "%s: %s", path, g_strerror(errno));
  if (file)
    fclose(file);
  return NULL;
}

BpTensor *png_read(const char *path, const int64_t *shape, int32_t ndim) {
  Layout layout;
  png_image image = {.version = PNG_IMAGE_VERSION};
  if (layout_of(shape, ndim, &layout) < 0)
    return NULL;
  FILE *file = open_readable(path);
  BpTensor *tensor = NULL;
  if (!file)
    return NULL;
  if (png_image_begin_read_from_stdio(&image, file))
    tensor = decode(&image, path, &layout, ndim);
  else
    bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, image.message);
  png_image_free(&image);
  fclose(file);
  return tensor;
}

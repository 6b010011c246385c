/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as model inputs: PNG through libpng's simplified API, JPEG through TurboJPEG's. */
#include "tools/command.h"

#include <png.h>
#include <string.h>
#include <turbojpeg.h>

#include <backplane/object.h>

#define MAX_SIDE 16384

/* A small progressive JPEG may have thousands of scans, each of which takes as long as the whole
 * picture. TurboJPEG before 2.1 has no limit. */
#ifdef TJFLAG_LIMITSCANS
#define LIMIT_SCANS TJFLAG_LIMITSCANS
#else
#define LIMIT_SCANS 0
#endif

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

/* Sets open extents of the layout to the picture's size, and checks the other extents. */
static int settle_size(int64_t width, int64_t height, const char *path, Layout *layout) {
  layout->width = layout->width < 0 ? width : layout->width;
  layout->height = layout->height < 0 ? height : layout->height;
  if (width > MAX_SIDE || height > MAX_SIDE)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s is %" G_GINT64_FORMAT " pixels wide and %" G_GINT64_FORMAT
                          " high, and at most %d can be",
                          path, width, height, MAX_SIDE);
  if (width != layout->width || height != layout->height)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s is %" G_GINT64_FORMAT " pixels wide and %" G_GINT64_FORMAT
                          " high, the input is %" G_GINT64_FORMAT " by %" G_GINT64_FORMAT
                          "; scale the picture first",
                          path, width, height, layout->width, layout->height);
  return 0;
}

/* Makes a tensor with those of the extents 1, C, H, W that the input has (transfer full); NULL with
 * an error. */
static BpTensor *create_tensor(const Layout *layout, int32_t ndim) {
  const int64_t extents[] = {1, layout->channels, layout->height, layout->width};
  return bp_tensor_create(extents + 4 - ndim, ndim, (BpDataType){BP_DTYPE_FLOAT, 32, 1},
                          (BpDevice){BP_DEVICE_CPU, 0}, NULL);
}

static unsigned char *allocate_pixels(const char *path, size_t size) {
  unsigned char *pixels = g_try_malloc(size);
  if (!pixels)
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for its pixels", path);
  return pixels;
}

/* ---- PNG --------------------------------------------------------------------------------- */

/* The bytes of a PNG file. */
typedef struct PngFile {
  const char *path;
  const char *bytes;
  gsize size;
} PngFile;

static int raise_png(const PngFile *file, const png_image *image) {
  return bp_error_raise(BP_ERROR_FORMAT, "%s: %s", file->path, image->message);
}

/* Begins to read; png_image_free ends it, whatever the result. */
static int begin_png(const PngFile *file, png_image *image) {
  *image = (png_image){.version = PNG_IMAGE_VERSION};
  return png_image_begin_read_from_memory(image, file->bytes, file->size) ? 0
                                                                          : raise_png(file, image);
}

#define CHUNK_HEAD 8  /* length and type */
#define CHUNK_SIZE 12 /* with the checksum */

/* Returns the number of bytes in the chunks of compressed pixels. */
static uint64_t count_compressed(const PngFile *file) {
  uint64_t count = 0;
  guint32 size;
  for (gsize at = 8; file->size - at >= CHUNK_SIZE; at += CHUNK_SIZE + size) {
    memcpy(&size, file->bytes + at, sizeof size);
    size = GUINT32_FROM_BE(size);
    if (size > file->size - at - CHUNK_SIZE)
      break;
    if (memcmp(file->bytes + at + CHUNK_HEAD - 4, "IDAT", 4) == 0)
      count += size;
  }
  return count;
}

/* Refuses more compressed bytes than any program writes for the pixels: libpng decompresses all of
 * them, which takes seconds for each MiB. */
static int check_compressed(const PngFile *file, const png_image *image) {
  uint64_t pixels = 8 * ((uint64_t)image->width + 1) * image->height;
  uint64_t compressed = count_compressed(file), most = 2 * pixels + 65536;
  if (compressed <= most)
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT,
                        "%s: %" G_GUINT64_FORMAT " bytes of compressed pixels, and %u by %u pixels "
                        "need at most %" G_GUINT64_FORMAT
                        "; save the picture again with another program",
                        file->path, compressed, image->width, image->height, most);
}

static int check_indices(const PngFile *file, const png_image *image, const png_byte *indices) {
  size_t count = (size_t)image->width * image->height;
  for (size_t i = 0; i < count; i++)
    if (indices[i] >= image->colormap_entries)
      return bp_error_raise(
          BP_ERROR_FORMAT,
          "%s: pixel %zu of row %zu is colour %d, and the palette has colours 0 to "
          "%u; save the picture again with another program",
          file->path, i % image->width, i / image->width, indices[i], image->colormap_entries - 1);
  return 0;
}

/* Checks that each pixel of a picture with a palette is a colour of the palette: libpng reads other
 * pixels as black. */
static int check_palette(const PngFile *file) {
  png_byte colours[256 * 4];
  png_image image;
  int status = begin_png(file, &image);
  image.format = PNG_FORMAT_RGBA_COLORMAP;
  png_byte *indices =
      status ? NULL : allocate_pixels(file->path, (size_t)image.width * image.height);
  if (!indices)
    status = -1;
  else if (!png_image_finish_read(&image, NULL, indices, 0, colours))
    status = raise_png(file, &image);
  else
    status = check_indices(file, &image, indices);
  png_image_free(&image);
  g_free(indices);
  return status;
}

/* Alpha is ignored: there is no background to blend with. */
static BpTensor *decode_png(const PngFile *file, png_image *image, Layout *layout, int32_t ndim) {
  if (settle_size(image->width, image->height, file->path, layout) < 0 ||
      check_compressed(file, image) < 0 ||
      ((image->format & PNG_FORMAT_FLAG_COLORMAP) && check_palette(file) < 0))
    return NULL;
  image->format =
      (layout->channels == 1 ? 0 : PNG_FORMAT_FLAG_COLOR) | (image->format & PNG_FORMAT_FLAG_ALPHA);
  png_byte *pixels = allocate_pixels(file->path, PNG_IMAGE_SIZE(*image));
  BpTensor *tensor = NULL;
  if (!pixels)
    return NULL;
  if (!png_image_finish_read(image, NULL, pixels, 0, NULL))
    raise_png(file, image);
  else
    tensor = create_tensor(layout, ndim);
  if (tensor)
    to_planes(pixels, PNG_IMAGE_PIXEL_SIZE(image->format), layout, tensor->view.data);
  g_free(pixels);
  return tensor;
}

static BpTensor *read_png(const char *path, Layout *layout, int32_t ndim) {
  PngFile file = {.path = path};
  char *bytes = file_read(path, &file.size);
  BpTensor *tensor = NULL;
  png_image image;
  if (!bytes)
    return NULL;
  file.bytes = bytes;
  if (begin_png(&file, &image) == 0)
    tensor = decode_png(&file, &image, layout, ndim);
  png_image_free(&image);
  g_free(bytes);
  return tensor;
}

/* ---- JPEG -------------------------------------------------------------------------------- */

/* A truncated picture decodes with a warning, which the command makes an error. */
static BpTensor *decode_jpeg(tjhandle decoder, const unsigned char *bytes, gsize size,
                             const char *path, Layout *layout, int32_t ndim) {
  int width, height, sampling, space;
  int format = layout->channels == 1 ? TJPF_GRAY : TJPF_RGB;
  size_t pixel = (size_t)tjPixelSize[format];
  if (tjDecompressHeader3(decoder, bytes, size, &width, &height, &sampling, &space) < 0) {
    bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, tjGetErrorStr2(decoder));
    return NULL;
  }
  if (space == TJCS_CMYK || space == TJCS_YCCK) {
    bp_error_raise(BP_ERROR_FORMAT, "%s: its colours are CMYK; convert it to RGB or grey", path);
    return NULL;
  }
  if (settle_size(width, height, path, layout) < 0)
    return NULL;
  unsigned char *pixels = allocate_pixels(path, (size_t)width * (size_t)height * pixel);
  BpTensor *tensor = NULL;
  if (!pixels)
    return NULL;
  if (tjDecompress2(decoder, bytes, size, pixels, width, 0, height, format,
                    TJFLAG_ACCURATEDCT | LIMIT_SCANS) < 0)
    bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, tjGetErrorStr2(decoder));
  else
    tensor = create_tensor(layout, ndim);
  if (tensor)
    to_planes(pixels, pixel, layout, tensor->view.data);
  g_free(pixels);
  return tensor;
}

static BpTensor *read_jpeg(const char *path, Layout *layout, int32_t ndim) {
  gsize size;
  char *bytes = file_read(path, &size);
  tjhandle decoder = bytes ? tjInitDecompress() : NULL;
  BpTensor *tensor = NULL;
  if (decoder)
    tensor = decode_jpeg(decoder, (const unsigned char *)bytes, size, path, layout, ndim);
  else if (bytes)
    bp_error_raise(BP_ERROR_MEMORY, "%s: no memory to read a JPEG", path);
  if (decoder)
    tjDestroy(decoder);
  g_free(bytes);
  return tensor;
}

/* ---- Both -------------------------------------------------------------------------------- */

static gboolean is_jpeg(const char *path) {
  return path_has_extension(path, ".jpg") || path_has_extension(path, ".jpeg");
}

gboolean path_is_picture(const char *path) {
  return path_has_extension(path, ".png") || is_jpeg(path);
}

BpTensor *picture_read(const char *path, const int64_t *shape, int32_t ndim) {
  Layout layout;
  if (layout_of(shape, ndim, &layout) < 0)
    return NULL;
  return (is_jpeg(path) ? read_jpeg : read_png)(path, &layout, ndim);
}
